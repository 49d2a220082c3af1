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

/* pmu_intercept.c: one access of the guest to an MSR of the PMU, where these exit (a row's function
 * in vmx/msr.c): done on the hardware, or, with pmu=off, refused. False: #GP. */
bool pmu_access(struct cpu *cpu, uint32_t index, uint64_t *value, bool write);
#define PMU_COUNTERS_MAX 8
#define PMU_FIXED_MAX 16

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
