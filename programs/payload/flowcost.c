/* SPDX-License-Identifier: BSD-2-Clause
 * flowcost.c: the job whose loads the trace of exits is priced by: a program that only computes, one
 * that calls the kernel, two that hand each other the processor, one that sleeps, and one that reads
 * the disk past the page cache. Each is a region of the ledger; the last line of each says how much
 * work it was. Pinned to one processor, so that a switch is one.
 */
#define _GNU_SOURCE
#include "payload.h"
#include "smp.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

static int ping_pong(void)
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
    region_begin(REGION_FLOW_SWITCHES);
    int failed = take_turns(back[0], there[1], true);
    region_end(REGION_FLOW_SWITCHES);
    printf("flowcost: load=switches region=%d turns=%d waits=%ld\n", REGION_FLOW_SWITCHES, TURNS,
           switches() - before);
    failed |= waitpid(child, &status, 0) != child || status != 0;
    for (int i = 0; i < 2; i++) {
        close(there[i]);
        close(back[i]);
    }
    return failed;
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

int job_flowcost(void)
{
    pin(0, 0);
    measured("compute", REGION_FLOW_COMPUTE, compute, COMPUTE_ROUNDS);
    measured("calls", REGION_FLOW_CALLS, call, CALLS);
    measured("sleeps", REGION_FLOW_SLEEPS, rest, SLEEPS);
    return ping_pong() | read_disk();
}
