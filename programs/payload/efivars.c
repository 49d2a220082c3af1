/* SPDX-License-Identifier: BSD-2-Clause
 * efivars.c: the job `efivars`: EFI runtime services from inside the guest, through efivarfs:
 * lists the variables, writes one, reads it back, deletes it.
 * UEFI, "Variable Services".
 */
#include "payload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#define EFIVARS "/sys/firmware/efi/efivars"
#define TEST_VARIABLE EFIVARS "/PmuvisorTest-8c2f5e0a-71a4-4a0e-9b53-0f6d3c1e7a42"

#define EFI_VARIABLE_NON_VOLATILE 1u
#define EFI_VARIABLE_BOOTSERVICE_ACCESS 2u
#define EFI_VARIABLE_RUNTIME_ACCESS 4u

/* How efivarfs lays a variable out in its file. */
struct variable {
    uint32_t attributes;
    char data[16];
};

static int count_variables(void)
{
    DIR *folder = opendir(EFIVARS);
    struct dirent *entry;
    int count = 0;

    if (folder == NULL)
        return -1;
    while ((entry = readdir(folder)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* efivarfs makes variables that it does not know immutable, as a guard against accidents. */
static void make_mutable(const char *path)
{
    int flags = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        ioctl(fd, FS_IOC_GETFLAGS, &flags);
        flags &= ~FS_IMMUTABLE_FL;
        ioctl(fd, FS_IOC_SETFLAGS, &flags);
        close(fd);
    }
}

JOB(efivars)
{
    struct variable written = {
        .attributes = EFI_VARIABLE_NON_VOLATILE | EFI_VARIABLE_BOOTSERVICE_ACCESS |
                      EFI_VARIABLE_RUNTIME_ACCESS,
        .data = "PMUvisor test",
    };
    struct variable found = {0};
    int before, fd;

    if (access("/sys/firmware/efi", F_OK) != 0) {
        printf("efivars: error=\"the kernel has no EFI runtime services\"\n");
        return 1;
    }
    load_module("efivarfs");
    if (mount("efivarfs", EFIVARS, "efivarfs", 0, NULL) != 0 && errno != EBUSY)
        return fail_job("efivars", "mount", errno);
    before = count_variables();
    fd = open(TEST_VARIABLE, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return fail_job("efivars", "create", errno);
    if (write(fd, &written, sizeof(written)) != sizeof(written))
        return fail_job("efivars", "write", errno);
    close(fd);
    fd = open(TEST_VARIABLE, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, &found, sizeof(found)) != sizeof(found))
        return fail_job("efivars", "read", errno);
    close(fd);
    make_mutable(TEST_VARIABLE);
    if (unlink(TEST_VARIABLE) != 0)
        return fail_job("efivars", "delete", errno);
    printf("efivars: variables=%d same=%d after=%d\n", before,
           memcmp(&written, &found, sizeof(found)) == 0, count_variables());
    return before <= 0 || memcmp(&written, &found, sizeof(found)) != 0 ||
           count_variables() != before;
}
