/* SPDX-License-Identifier: BSD-2-Clause
 * a1.h: the thesis's program A.1, shared by the job `a1`, which shows that it works, and the job
 * `a1bench`, which measures it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define A1_BRANCHES 100000L /* N */
#define A1_RUNS 4
#define A1_AGAIN 125                       /* runs of each M in the job a1again */
extern const uint64_t a1_periods[A1_RUNS]; /* M */

struct a1_plan {
    uint64_t period;
    uint32_t region;       /* the whole program; 0: not marked */
    uint32_t inner_region; /* what is between the two hypercalls; 0: not marked */
    bool hypercalls;       /* NMI passthrough on before and off after, as in the appendix */
    uint32_t pmu;          /* perf's type of the PMU, 0: the one that the kernel takes */
};

struct a1_result {
    uint64_t period;
    long long expected;
    long long pmis;
    long long nmis;
    long long count;
    long long nanoseconds;
};

/* One run of the appendix's program. 0 or -errno; -EPERM: a hypercall was refused. */
int a1_run(const struct a1_plan *plan, struct a1_result *result);
