/* SPDX-License-Identifier: BSD-2-Clause
 * pair.c: the job `pair`: what a trace of a guest's execution flow is to show. Two processes take
 * turns over pipes, sleep, and then compete for one processor. A CPUID instruction of a leaf that
 * nobody has comes right before and right after it: every hypervisor takes an exit for it, so that
 * a trace from outside can begin and end there.
 */
#define _GNU_SOURCE
#include "payload.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REGION_PAIR 64         /* of the ledger: between the two leaves */
#define LEAF_BEGIN 0x70616972u /* "pair" */
#define LEAF_END (LEAF_BEGIN + 1)
#define TURNS 20
#define TURN_ROUNDS 2000
#define SLEEPS 5
#define SLEEP_NS 2000000
/* Longer than the scheduler lets one of two run. */
#define COMPETE_NS 30000000

static void work(unsigned rounds)
{
    for (volatile unsigned i = 0; i < rounds; i++) {
    }
}

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* One of the two; its turn begins with a byte from the other. */
static int player(int in, int out, bool first)
{
    const struct timespec pause = {.tv_nsec = SLEEP_NS};
    char byte = 0;
    uint64_t end;

    for (unsigned i = 0; i < TURNS; i++) {
        if ((i != 0 || !first) && read(in, &byte, 1) != 1)
            return EXIT_FAILURE;
        work(TURN_ROUNDS);
        if ((i != TURNS - 1 || first) && write(out, &byte, 1) != 1)
            return EXIT_FAILURE;
    }
    for (unsigned i = 0; i < SLEEPS; i++) {
        nanosleep(&pause, NULL);
        work(TURN_ROUNDS);
    }
    for (end = now() + COMPETE_NS; now() < end;)
        work(TURN_ROUNDS);
    return EXIT_SUCCESS;
}

int main(void)
{
    struct rusage children;
    cpu_set_t one;
    int ways[2][2];
    bool good = true;

    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0 || pipe(ways[0]) != 0 || pipe(ways[1]) != 0)
        return 1;
    fflush(stdout);
    cpuid(LEAF_BEGIN, 0);
    region_begin(REGION_PAIR);
    for (int i = 0; i < 2; i++)
        if (fork() == 0)
            _exit(player(ways[i][0], ways[!i][1], i == 0));
    for (int i = 0; i < 2; i++) {
        int status = -1;

        good = wait(&status) > 0 && status == 0 && good;
    }
    region_end(REGION_PAIR);
    cpuid(LEAF_END, 0);
    for (int i = 0; i < 2; i++) {
        close(ways[i][0]);
        close(ways[i][1]);
    }
    getrusage(RUSAGE_CHILDREN, &children);
    printf("pair: turns=%d sleeps=%d voluntary=%ld involuntary=%ld\n", 2 * TURNS, 2 * SLEEPS,
           children.ru_nvcsw, children.ru_nivcsw);
    return good ? 0 : 1;
}
