/* SPDX-License-Identifier: BSD-2-Clause
 * ends.c: the jobs in which this kernel ends with several processors: it starts Debian's kernel anew
 * from memory (kexec), or it panics while no other processor takes interrupts, so that only NMIs
 * stop them. SDM Vol. 3, "Multiple-Processor (MP) Initialization", "Nonmaskable Interrupt (NMI)".
 */
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMAND_LINE_MAX 2048
#define KERNEL "/kexec/vmlinuz"
#define INITRD "/kexec/initrd"
#define STUCK "/sys/module/pmuvisor_stuck/parameters/stuck"

/* This kernel's words, with the value of pmv.kexec, if there is one, as the jobs. */
static void next_command_line(char *line, size_t size)
{
    char jobs[COMMAND_LINE_MAX / 2];
    char *text, *rest = NULL;
    size_t used = 0;

    command_line_word("pmv.kexec", "report", jobs, sizeof(jobs));
    text = read_text("/proc/cmdline");
    for (char *w = text == NULL ? NULL : strtok_r(text, " \n", &rest); w != NULL;
         w = strtok_r(NULL, " \n", &rest)) {
        if (strncmp(w, "pmv.run=", 8) != 0 && strncmp(w, "pmv.kexec=", 10) != 0 && used < size) {
            used += (size_t)snprintf(line + used, size - used, "%s ", w);
        }
    }
    if (used < size) {
        snprintf(line + used, size - used, "pmv.run=%s", jobs);
    }
}

int job_kexec(void)
{
    char line[COMMAND_LINE_MAX] = "";
    int kernel = open(KERNEL, O_RDONLY | O_CLOEXEC);
    int initrd = open(INITRD, O_RDONLY | O_CLOEXEC);

    next_command_line(line, sizeof(line));
    if (syscall(SYS_kexec_file_load, kernel, initrd, strlen(line) + 1, line, 0ul) != 0) {
        printf("kexec: error=\"kexec_file_load: %s\"\n", strerror(errno));
        return 1;
    }
    printf("kexec: loaded=1\n");
    usleep(20000); /* the last characters are in the UART's FIFO */
    syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_KEXEC, NULL);
    printf("kexec: error=\"reboot: %s\"\n", strerror(errno));
    return 1;
}

int job_panic(void)
{
    int error = load_module("pmuvisor_stuck");

    nmi_watchdog_set(false);
    write_text("/proc/sys/kernel/sysrq", "1\n");
    printf("panic: module=\"%s\" nmis=%lld\n", strerror(-error), interrupt_count("NMI"));
    usleep(20000);
    if (error != 0 || write_text(STUCK, "1") != 0) {
        return 1;
    }
    return write_text("/proc/sysrq-trigger", "c") != 0;
}
