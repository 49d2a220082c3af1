/* SPDX-License-Identifier: BSD-2-Clause
 * context_switch.c: the job `context_switch`: what it adds to a switch between two processes on one
 * processor that each of them counts for itself, four events, as PAPI has it (paper 001): at each
 * switch Linux stops and saves one's counters, and loads and starts the other's. Items: `plain`
 * without counters, and `counted`, whose base that is. They are not inherited: contexts that were
 * inherited Linux exchanges without touching the PMU.
 */
#define _GNU_SOURCE
#include "../measure/statistics.h"
#include "payload.h"
#include "smp.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS 200 /* of a pass: two switches each */
#define RUNS_DEFAULT "30"
#define RUNS_MAX 100
#define WORD_MAX 32

static const uint64_t events[] = {PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
                                  PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_MISSES};

/* Counters of the caller alone, on from here to its end. 0 or -errno. */
static int count_self(void)
{
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        struct perf_event_attr attr = {
            .type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = events[i]};

        if (syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) < 0)
            return -errno;
    }
    return 0;
}

/* The first sends a byte and waits for the answer; the other ends where the pipe does. */
static int send_turns(int in, int out)
{
    char byte = 0;

    for (int i = 0; i < TURNS; i++)
        if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
            return -EIO;
    return 0;
}

static int answer_turns(int in, int out)
{
    char byte;

    while (read(in, &byte, 1) == 1)
        if (write(out, &byte, 1) != 1)
            return -EIO;
    return 0;
}

/* One marked pass and `runs` timed ones. 0 or -errno. */
static int passes(int in, int out, uint32_t region, uint64_t *times, unsigned runs)
{
    int error = send_turns(in, out); /* once, so that both are there */

    region_begin(region);
    error = error != 0 ? error : send_turns(in, out);
    region_end(region);
    for (unsigned i = 0; error == 0 && i < runs; i++) {
        uint64_t start = __builtin_ia32_rdtsc();
        error = send_turns(in, out);
        times[i] = __builtin_ia32_rdtsc() - start;
    }
    return error;
}

/* A process of its own, so that its counters end with it. */
static int measure(bool counted, const char *words, uint32_t region, unsigned runs)
{
    static uint64_t times[RUNS_MAX];
    int there[2], back[2], error = 0;

    if (pipe(there) != 0 || pipe(back) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        close(there[1]);
        error = counted ? count_self() : 0;
        _exit(error == 0 ? -answer_turns(there[0], back[1]) : -error);
    }
    close(there[0]);
    error = counted ? count_self() : 0;
    error = error != 0 ? error : passes(back[0], there[1], region, times, runs);
    close(there[1]);
    int status = 0;
    if (waitpid(child, &status, 0) != child || (error == 0 && status != 0))
        error = -ECHILD;
    if (error != 0) {
        printf("bench: experiment=context_switch item=%s skip=\"%s\"\n", words, strerror(-error));
        return 1;
    }
    struct distribution d = distribution_of(times, runs);
    printf("bench: experiment=context_switch item=%s region=%u ops=%d metric=time unit=tsc n=%u "
           "min=%llu median=%llu p95=%llu\n",
           words, region, 2 * TURNS, runs, (unsigned long long)d.min, (unsigned long long)d.median,
           (unsigned long long)d.p95);
    return 0;
}

JOB(context_switch)
{
    char word[WORD_MAX];

    command_line_word("pmv.switch_runs", RUNS_DEFAULT, word, sizeof(word));
    unsigned long runs = strtoul(word, NULL, 10);
    runs = runs < 1 ? 1 : runs > RUNS_MAX ? RUNS_MAX : runs;
    pin(0, 0);
    perf_lift_limits();
    fflush(stdout);
    int failed = measure(false, "plain", REGION_CONTEXT_SWITCH, (unsigned)runs);
    fflush(stdout);
    return failed | measure(true, "counted base=plain", REGION_CONTEXT_SWITCH + 1, (unsigned)runs);
}
