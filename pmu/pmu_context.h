/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The whole state of a PMU, to be switched between two users of it: the guest and the host, or two
 * guests. Thesis, section 3.1 (sched_out and sched_in).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpu;

#define PMU_CONTEXT_MAX 48

/* One user's registers, in the order of this processor's list. GLOBAL_CTRL is not among them: it is
 * in the VMCS for a guest, and 0 in root mode outside host work. */
struct pmu_context {
    uint64_t value[PMU_CONTEXT_MAX];
    uint64_t status; /* IA32_PERF_GLOBAL_STATUS */
};

/* Finds out which registers this processor has. False: the page pool is used up. */
bool pmu_context_setup(struct cpu *cpu);

/* Saves what is in the registers to *from and loads *to: one RDMSR and one WRMSR for each register,
 * status first cleared and last set. GLOBAL_CTRL is 0, before and after. */
void pmu_context_switch(struct cpu *cpu, struct pmu_context *from, const struct pmu_context *to);

/* What CPUID and IA32_PERF_CAPABILITIES (0: there is none) say of this processor's PMU. */
struct pmu_facts {
    unsigned version, general, fixed; /* the latter two: counters */
    uint64_t capabilities;
};
struct pmu_facts pmu_facts(void);
