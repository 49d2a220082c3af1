/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Declarations that the files of policy=demand share.
 */
#pragma once

#include "pmu/pmu.h"

/* The option second_user=. */
enum { SECOND_USER_OFF, SECOND_USER_COUNTING, SECOND_USER_WHOLE };
extern uint32_t second_user;

/* State of each processor. */
struct cpu_demand {
    uint8_t *open;          /* bitmap that lets PMU accesses pass; NULL: other policy or pmu=off */
    bool passes;            /* PMU accesses pass now */
    bool rdpmc_exits;       /* this processor's VMX cannot turn RDPMC exiting off */
    unsigned idle;          /* ticks in a row at which nothing counted */
    struct pmu_facts facts; /* the counters that exist */
    exit_handler wrmsr;     /* the handler that demand_wrmsr() replaced */
    exit_handler tick;      /* the handler that demand_tick() replaced */
    exit_handler under_second_user; /* the handler that second_user_tick() replaced */
};
struct cpu_demand *demand_of(const struct cpu *cpu);

/* ---- counting.c ---- */

/* Returns whether the guest's write of `value` to the MSR `index` turns a counter on (see the head
 * of counting.c). */
bool demand_enables_counter(const struct cpu *cpu, uint32_t index, uint64_t value);
/* Returns whether a counter is enabled and GLOBAL_CTRL lets it count. */
bool demand_is_counting(const struct cpu *cpu);

/* ---- second_user.c ---- */

void second_user_setup(struct cpu *cpu);
