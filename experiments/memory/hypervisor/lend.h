/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Lends IA32_FIXED_CTR0 to root mode, to count the guest's retired instructions. The count starts
 * at the value PMU_LENT_FROM. The counter is lent only if the guest does not use it. Its old value
 * is restored unless the guest has begun to use the counter. Call both functions from an exit's
 * handler.
 */
#pragma once

#include "pmu/pmu.h"

/* The numbers match TRACE_COUNTER_* (trace_ring.h). */
enum pmu_lent { PMU_NO_COUNTER, PMU_COUNTER_LENT, PMU_COUNTER_IN_USE };
#define PMU_LENT_FROM BIT(46)
#define PMU_LENT_COUNT BITS(43, 0)
enum pmu_lent pmu_lend_counter(struct cpu *cpu);
void pmu_give_counter_back(struct cpu *cpu);
