/* SPDX-License-Identifier: BSD-2-Clause
 * resctrl.c: the job `resctrl`: a group of Linux's resource control with a cache mask of its own
 * and this process in it, and what the processor's MSRs hold meanwhile and afterwards. SDM Vol. 3,
 * "Intel Resource Director Technology (Intel RDT) Allocation Features". Linux,
 * Documentation/x86/resctrl.rst.
 */
#define _GNU_SOURCE
#include "payload.h"
#include "smp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT "/sys/fs/resctrl"
#define GROUP ROOT "/group"
#define IA32_QM_EVTSEL 0xc8d
#define IA32_PQR_ASSOC 0xc8f
#define IA32_L3_QOS_MASK_0 0xc90
#define IA32_L3_QOS_MASK_1 0xc91

static void print_msrs(const char *when)
{
    static const uint32_t indices[] = {IA32_QM_EVTSEL, IA32_PQR_ASSOC, IA32_L3_QOS_MASK_0,
                                       IA32_L3_QOS_MASK_1};
    int fd = open("/dev/cpu/0/msr", O_RDONLY | O_CLOEXEC);

    printf("resctrl: when=%s", when);
    for (size_t i = 0; i < sizeof(indices) / sizeof(indices[0]); i++) {
        unsigned long long value = ~0ull;

        if (pread(fd, &value, sizeof(value), indices[i]) != sizeof(value))
            value = ~0ull;
        printf(" msr_%x=%llx", indices[i], value);
    }
    printf("\n");
    close(fd);
}

/* Prints a file's first line. */
static void print_file(const char *name, const char *path)
{
    char *text = read_text(path);

    printf("resctrl: %s=\"%.*s\"\n", name, text == NULL ? 0 : (int)strcspn(text, "\n"),
           text == NULL ? "" : text);
}

JOB(resctrl)
{
    int error;

    if ((error = load_module("msr")) != 0 || (error = pin(0, 0)) != 0)
        return fail_job("resctrl", "msr", -error);
    if (mount("resctrl", ROOT, "resctrl", 0, NULL) != 0)
        return fail_job("resctrl", "mount", errno);
    print_file("first", ROOT "/schemata");
    if (mkdir(GROUP, 0755) != 0)
        return fail_job("resctrl", GROUP, errno);
    if ((error = write_text(GROUP "/schemata", "L3:0=3\n")) != 0 ||
        (error = write_text(GROUP "/tasks", "1\n")) != 0) {
        return fail_job("resctrl", "group", -error);
    }
    print_file("group", GROUP "/schemata");
    print_file("occupancy", GROUP "/mon_data/mon_L3_00/llc_occupancy");
    print_msrs("inside");
    if (rmdir(GROUP) != 0)
        return fail_job("resctrl", "rmdir", errno);
    print_msrs("outside");
    return umount(ROOT) != 0;
}
