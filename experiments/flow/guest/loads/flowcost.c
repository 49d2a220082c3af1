/* SPDX-License-Identifier: BSD-2-Clause
 * flowcost.c: the job `flowcost`, whose loads the flow trace is priced by: a program that only
 * computes, one that calls the kernel, two that hand each other the processor, the same while the
 * kernel itself traces each switch (paper 002, section V.B, compares with that), one that sleeps, and
 * one that reads the disk past the page cache. Each is a region of the ledger; the last line of each
 * says how much work it was. Pinned to one processor, so that a switch is one.
 */
#define _GNU_SOURCE
#include "payload.h"
#include "smp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Regions of the ledger. */
enum {
    REGION_FLOW_COMPUTE = 70,
    REGION_FLOW_CALLS = 71,
    REGION_FLOW_SLEEPS = 72,
    REGION_FLOW_SWITCHES = 73,
    REGION_FLOW_DISK = 74,
    REGION_FLOW_TRACED = 76,
};

#define TRACEFS "/sys/kernel/tracing"
#define COMPUTE_ROUNDS 20000000L
#define CALLS 2000
#define TURNS 1000 /* two switches each */
#define SLEEPS 20
#define SLEEP_NS 1000000L
#define READS 64
#define READ_BYTES 4096

static void compute(void)
{
    unsigned long value = 1;

    for (long i = 0; i < COMPUTE_ROUNDS; i++) {
        value = value * 6364136223846793005UL + 1442695040888963407UL;
        __asm__ volatile("" : "+r"(value));
    }
}

static void call(void)
{
    for (int i = 0; i < CALLS; i++) {
        (void)syscall(SYS_getppid);
    }
}

static void rest(void)
{
    const struct timespec pause = {.tv_nsec = SLEEP_NS};

    for (int i = 0; i < SLEEPS; i++) {
        (void)nanosleep(&pause, NULL);
    }
}

/* Sends a byte and waits for its answer, or the other way round. */
static int take_turns(int in, int out, bool first)
{
    char byte = 0;

    for (int i = 0; i < TURNS; i++) {
        if ((first && write(out, &byte, 1) != 1) || read(in, &byte, 1) != 1 ||
            (!first && write(out, &byte, 1) != 1)) {
            return 1;
        }
    }
    return 0;
}

static long switches(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nvcsw + usage.ru_nivcsw : -1;
}

static int ping_pong(const char *name, unsigned region)
{
    int there[2], back[2], status;

    if (pipe(there) != 0 || pipe(back) != 0) {
        return 1;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        _exit(take_turns(there[0], back[1], false));
    }
    long before = switches();
    region_begin(region);
    int failed = take_turns(back[0], there[1], true);
    region_end(region);
    printf("flowcost: load=%s region=%u turns=%d waits=%ld\n", name, region, TURNS,
           switches() - before);
    failed |= waitpid(child, &status, 0) != child || status != 0;
    for (int i = 0; i < 2; i++) {
        close(there[i]);
        close(back[i]);
    }
    return failed;
}

/* A kernel without tracefs is no failure: the load is not there then. */
static int ping_pong_traced(void)
{
    if ((mount("tracefs", TRACEFS, "tracefs", 0, NULL) != 0 && errno != EBUSY) ||
        write_text(TRACEFS "/events/sched/sched_switch/enable", "1") != 0) {
        printf("flowcost: load=traced region=0\n");
        return 0;
    }
    (void)write_text(TRACEFS "/tracing_on", "1");
    int failed = ping_pong("traced", REGION_FLOW_TRACED);
    return failed | (write_text(TRACEFS "/events/sched/sched_switch/enable", "0") != 0);
}

/* No disk is no failure: there may be none that this kernel knows. */
static int read_disk(void)
{
    static char buffer[READ_BYTES] __attribute__((aligned(READ_BYTES)));
    char path[64];
    int reads = 0;

    command_line_word("pmv.disk", "/dev/sda", path, sizeof(path));
    int file = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (file < 0) {
        printf("flowcost: load=disk path=%s reads=0\n", path);
        return 0;
    }
    region_begin(REGION_FLOW_DISK);
    while (reads < READS && pread(file, buffer, READ_BYTES, (off_t)reads * READ_BYTES) == READ_BYTES) {
        reads++;
    }
    region_end(REGION_FLOW_DISK);
    close(file);
    printf("flowcost: load=disk region=%d path=%s reads=%d\n", REGION_FLOW_DISK, path, reads);
    return reads != READS;
}

static void measured(const char *name, unsigned region, void (*load)(void), long work)
{
    load(); /* once, so that its pages are there */
    region_begin(region);
    load();
    region_end(region);
    printf("flowcost: load=%s region=%u work=%ld\n", name, region, work);
}

int main(void)
{
    pin(0, 0);
    measured("compute", REGION_FLOW_COMPUTE, compute, COMPUTE_ROUNDS);
    measured("calls", REGION_FLOW_CALLS, call, CALLS);
    measured("sleeps", REGION_FLOW_SLEEPS, rest, SLEEPS);
    return ping_pong("switches", REGION_FLOW_SWITCHES) | ping_pong_traced() | read_disk();
}
