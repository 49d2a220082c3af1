/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What policy=demand asks of the PMU, and does with it.
 */
#pragma once

#include "pmu/pmu.h"

/* ---- counting.c ---- */

/* Returns whether the guest's write of `value` to the MSR `index` turns a counter on (see the head
 * of counting.c). */
bool demand_enables_counter(const struct pmu_facts *facts, uint32_t index, uint64_t value);
/* Returns whether a counter is enabled and GLOBAL_CTRL lets it count. */
bool demand_is_counting(const struct cpu *cpu, const struct pmu_facts *facts);

/* ---- second_user.c ---- */

/* The option second_user=. */
enum { SECOND_USER_OFF, SECOND_USER_COUNTING, SECOND_USER_WHOLE };
extern uint32_t second_user;

/* Gives the guest's PMU to a second user and takes it back. */
void second_user_switch(struct cpu *cpu);
