/* SPDX-License-Identifier: BSD-2-Clause
 *
 * IA32_FIXED_CTR0 counts the guest's retired instructions, from PMU_LENT_FROM on, for root mode,
 * and gets back what it had, where the guest did not use it before, nor began to. In an exit's
 * handler.
 */
#pragma once

#include "pmu/pmu.h"

/* The numbers are those of TRACE_COUNTER_* (trace_ring.h). */
enum pmu_lent { PMU_NO_COUNTER, PMU_COUNTER_LENT, PMU_COUNTER_IN_USE };
#define PMU_LENT_FROM BIT(46)
#define PMU_LENT_COUNT BITS(43, 0)
enum pmu_lent pmu_lend_counter(struct cpu *cpu);
void pmu_give_counter_back(struct cpu *cpu);
