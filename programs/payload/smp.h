/* SPDX-License-Identifier: BSD-2-Clause
 * smp.h: what the jobs about several processors share: one line of /proc/interrupts by processor,
 * pinning, and programs of known length that are counted from outside while they run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESSORS_MAX 64

/* Processors that are online, by Linux's count. */
int processors_online(void);

bool processor_is_online(int cpu);

/* Lets the process (0: the caller) run on this processor alone. 0 or -errno. */
int pin(pid_t process, int cpu);

/* Of a hybrid machine, the PMU of this processor: "cpu_core" or "cpu_atom", and perf's type of it,
 * which an event of that processor has to name. NULL and 0: all processors have the same PMU. */
const char *hybrid_pmu(int cpu, uint32_t *type);

/* One line of /proc/interrupts ("NMI", "PMI"), by the processors that are online, in their order; a
 * kernel without that line gives zeros. Returns the sum over all processors, or -1. */
long long interrupt_counts(const char *name, long long counts[PROCESSORS_MAX]);

/* Prints " NAME=a,b,c" of `count` differences. */
void print_growth(const char *name, const long long before[], const long long after[], int count);

/* /loop, which executes LOOP_INSTRUCTIONS in user mode, with counters that its exec enables. */
struct counted {
    pid_t process;
    int start; /* pipe: it waits for a byte */
    int fds[3];
    long long instructions, branches, migrations;
};

/* loop.asm: two instructions per round and four around them. */
#define LOOP_INSTRUCTIONS (2ll * LOOP_ROUNDS + 4)

/* Makes the process; cpu -1: not pinned. It runs from counted_start(). 0 or -errno. */
int counted_make(struct counted *c, int cpu);
int counted_start(struct counted *c);
/* Waits for its end, unless that was seen already, and reads the counters. 0 or -errno. */
int counted_finish(struct counted *c, bool ended);

/* A child pinned to the processor that executes so many rounds of two instructions; its pid. */
pid_t spin_on(int cpu, uint64_t rounds);
