/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the files of policy=demand share.
 */
#pragma once

#include "pmu/pmu.h"

/* The option second_user=. */
enum { SECOND_USER_OFF, SECOND_USER_COUNTING, SECOND_USER_WHOLE };
extern uint32_t second_user;

/* Of each processor. */
struct cpu_demand {
    uint8_t *open;    /* the bitmap with which the PMU passes; NULL: not this policy */
    bool passes;      /* now */
    bool rdpmc_exits; /* in any case: this processor's VMX cannot turn it off */
    unsigned idle;    /* ticks in a row at which nothing counted */
    struct pmu_facts facts;
    exit_handler wrmsr, tick; /* what the rows lie over */
    exit_handler under_second_user;
};
struct cpu_demand *demand_of(const struct cpu *cpu);

/* ---- counting.c ---- */

/* The guest's write of this value turns a counter on, as far as it is one counter's own switch. */
bool demand_turns_on(const struct cpu *cpu, uint32_t index, uint64_t value);
/* A counter is enabled, and GLOBAL_CTRL lets it count. */
bool demand_counts(const struct cpu *cpu);

/* ---- second_user.c ---- */

void second_user_setup(struct cpu *cpu);
