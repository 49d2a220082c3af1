/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The job `check` of the guest's init: what pmuvisor-check needs and Debian's own init would do,
 * then the program's verdict here and a dump of this machine, each between two lines.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK "/pmuvisor-check"

static void load(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file >= 0)
        (void)syscall(SYS_finit_module, file, "", 0);
}

static int run(const char *argument)
{
    int status = -1;

    printf("check: begin %s\n", argument);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl(CHECK, CHECK, argument, (char *)NULL);
        _exit(127);
    }
    if (child > 0)
        waitpid(child, &status, 0);
    printf("check: end %s status=%d\n", argument, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return status;
}

int main(void)
{
    load("/lib/modules/msr.ko");
    load("/lib/modules/efivarfs.ko");
    (void)mount("efivarfs", "/sys/firmware/efi/efivars", "efivarfs", 0, NULL);
    run("--log");
    return run("--dump") != 0;
}
