/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest owns the PMU. What is left to do is IA32_PERF_GLOBAL_CTRL at exits and entries, so that
 * nothing counts in root mode, and to hide the PMU where pmu=off. Thesis, section 3.1.
 */
#pragma once

#include "cpu.h"

/* Chooses how GLOBAL_CTRL is switched, from the controls in use (indexed by enum control_set). */
enum global_ctrl_switch pmu_choose(bool pmu, const uint32_t *controls);
const char *pmu_switch_name(enum global_ctrl_switch how);

/* Writes the PMU's part of the VMCS, once. */
void pmu_setup(struct cpu *cpu);

/* Whether accesses to the PMU's MSRs exit: pmu=off, where they fault, or policy=intercept, where
 * they are done on the hardware for the guest. */
static inline bool pmu_intercepted(const struct cpu *cpu)
{
    return !cpu->boot->options.pmu || cpu->boot->options.policy == POLICY_INTERCEPT;
}
void pmu_watch(void *msr_bitmap); /* makes them exit */
bool pmu_owns(uint32_t msr);      /* tells them from others */

/* pmu_intercept.c: one access for the guest. False: #GP. */
bool pmu_read(struct cpu *cpu, uint32_t msr, uint64_t *value);
bool pmu_write(struct cpu *cpu, uint32_t msr, uint64_t value);

/* pmu_switch.c: to be called when the VMCS is current and an exit was handled. The MSR-store list
 * left the guest's value in memory; the VMCS has to load it again when it changed. */
void pmu_reload_global_ctrl(struct cpu *cpu);
/* The guest's value between an exit and an entry, and another one for it. */
uint64_t pmu_global_ctrl(const struct cpu *cpu);
void pmu_set_global_ctrl(struct cpu *cpu, uint64_t value);

static inline void pmu_before_entry(struct cpu *cpu)
{
    if (__builtin_expect(cpu->pmu.guest_list[0].value != cpu->pmu.global_ctrl_loaded, 0))
        pmu_reload_global_ctrl(cpu);
}
