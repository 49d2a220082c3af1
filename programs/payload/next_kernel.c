/* SPDX-License-Identifier: BSD-2-Clause
 * next_kernel.c: the kernel in the image that this one starts, by kexec or as its crash kernel.
 * Linux, Documentation/admin-guide/kdump/kdump.rst.
 */
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kexec.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void next_command_line(const char *fallback, char *line, size_t size)
{
    char jobs[NEXT_LINE_MAX / 2], text[2 * NEXT_LINE_MAX];
    char *rest = text;
    size_t used = 0;

    command_line_word("pmv.kexec", fallback, jobs, sizeof(jobs));
    command_line_text(text, sizeof(text));
    for (char *w; (w = next_word(&rest, " ")) != NULL;) {
        if (strncmp(w, "pmv.run=", 8) != 0 && strncmp(w, "pmv.kexec=", 10) != 0 &&
            strncmp(w, "pmv.words=", 10) != 0 && strncmp(w, "crashkernel=", 12) != 0 &&
            used < size) {
            used += (size_t)snprintf(line + used, size - used, "%s ", w);
        }
    }
    if (used < size)
        snprintf(line + used, size - used, "pmv.run=%s", jobs);
}

int load_crash_kernel(const char *fallback)
{
    char line[NEXT_LINE_MAX];
    int kernel = open(NEXT_KERNEL, O_RDONLY | O_CLOEXEC);
    int initrd = open(NEXT_INITRD, O_RDONLY | O_CLOEXEC);
    size_t used;

    next_command_line(fallback, line, sizeof(line));
    used = strlen(line);
    snprintf(line + used, sizeof(line) - used, " nr_cpus=1 reset_devices");
    return syscall(SYS_kexec_file_load, kernel, initrd, strlen(line) + 1, line,
                   KEXEC_FILE_ON_CRASH) == 0
               ? 0
               : -errno;
}
