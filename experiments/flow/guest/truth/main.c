/* SPDX-License-Identifier: BSD-2-Clause
 * main.c: runs the load under PMUvisor's flow trace and under the kernel's own trace of its
 * scheduler (tracefs, sched_switch and sched_process_fork, clock x86-tsc), and hands both over to
 * the emulator (testbed/README.md, "Files of the guest"). Wants user_hypercalls=1; under another
 * hypervisor, and under none, there are no rings. Linux, Documentation/trace/ftrace.rst, has the
 * files of tracefs.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include "hand_over.h"
#include "hypervisor.h"
#include "load.h"
#include "programs/guest_file.h"
#include "trace_ring.h"

#define TRACEFS "/sys/kernel/tracing/"
#define PROCESSORS_MAX 64
#define PF_KTHREAD 0x00200000u

static int fail(const char *what)
{
    printf("flowtruth: error=\"%s: %s\"\n", what, strerror(errno));
    return 1;
}

static bool put(const char *file, const char *text)
{
    char name[128];
    int fd;
    bool good;

    snprintf(name, sizeof(name), TRACEFS "%s", file);
    fd = open(name, O_WRONLY | O_TRUNC);
    good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (!good)
        fail(name);
    if (fd >= 0)
        close(fd);
    return good;
}

/* A line for each process that there is: pid, whether it is the kernel's own (PF_KTHREAD of Linux's
 * include/linux/sched.h, in the field `flags` of proc(5), /proc/PID/stat), and its name. */
static bool hand_over_processes(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    char text[64 << 10];
    size_t length = 0;

    if (folder == NULL)
        return fail("/proc") == 0;
    while ((entry = readdir(folder)) != NULL && length < sizeof(text) - 64) {
        char file[64], comm[32];
        unsigned flags;
        int pid;
        FILE *stat;

        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        snprintf(file, sizeof(file), "/proc/%.16s/stat", entry->d_name);
        stat = fopen(file, "r");
        if (stat == NULL)
            continue;
        if (fscanf(stat, "%d (%31[^)]) %*c %*d %*d %*d %*d %*d %u", &pid, comm, &flags) == 3)
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%d %d %s\n", pid,
                                       (flags & PF_KTHREAD) != 0, comm);
        fclose(stat);
    }
    closedir(folder);
    guest_file("processes", text, length);
    return true;
}

static bool hand_over_ring(int memory, int processor)
{
    uint64_t ring, bytes;
    void *found;

    if (!run_on(processor))
        return fail("sched_setaffinity") == 0;
    errno = ENOSYS;
    if (hypercall_trace(TRACE_OFF, &ring, &bytes) < 0)
        return fail("HYPERCALL_TRACE") == 0;
    found = mmap(NULL, bytes, PROT_READ, MAP_SHARED, memory, (off_t)ring);
    if (found == MAP_FAILED)
        return fail("mmap of the ring") == 0;
    guest_file("ring", found, bytes);
    munmap(found, bytes);
    return true;
}

int main(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int memory = open("/dev/mem", O_RDONLY);
    uint64_t ring, bytes;
    bool rings;

    if (memory < 0)
        return fail("/dev/mem");
    if (mount("tracefs", TRACEFS, "tracefs", 0, NULL) != 0 && errno != EBUSY)
        return fail("mount " TRACEFS);
    if (load_start() != 0)
        return fail("load_start");
    /* The switches last: the kernel patches itself for each event, under a table of its own. */
    if (!put("buffer_size_kb", "2048") || !put("trace_clock", "x86-tsc") ||
        !put("options/record-tgid", "1") || !put("events/sched/sched_process_fork/enable", "1") ||
        !put("events/sched/sched_switch/enable", "1") || !put("tracing_on", "1"))
        return 1;
    /* Kernel threads come and go: those before and those after; the trace has who began between. */
    if (!hand_over_processes())
        return 1;
    if (load_run() != 0)
        return fail("load_run");
    if (!put("tracing_on", "0"))
        return 1;
    rings = pmuvisor_there() && hypercall_trace(TRACE_ASK, &ring, &bytes) >= 0;
    for (int i = 0; i < (int)processors && i < PROCESSORS_MAX && rings; i++)
        if (!hand_over_ring(memory, i))
            return 1;
    if (!hand_over_file("sched", TRACEFS "trace") ||
        !hand_over_file("tgid", TRACEFS "saved_tgids") || !hand_over_processes())
        return 1;
    printf("flowtruth: processors=%ld rings=%s\n", processors, rings ? "yes" : "no");
    return load_end() != 0;
}
