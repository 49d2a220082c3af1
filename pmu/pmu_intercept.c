/* SPDX-License-Identifier: BSD-2-Clause
 *
 * policy=intercept: the guest's accesses to the PMU exit and are done on the hardware for it, the
 * floor of any trap-and-emulate. The counters do not count in root mode, so they hold what the
 * guest's instruction would have found. GLOBAL_CTRL is 0 in root mode: its guest value lives in the
 * VMCS or its list. SDM Vol. 3, "Performance Monitoring".
 */
#include "pmu.h"

#include "../vmx/fault.h"

bool pmu_read(struct cpu *cpu, uint32_t msr, uint64_t *value)
{
    if (!cpu->boot->options.pmu)
        return false;
    if (msr != IA32_PERF_GLOBAL_CTRL)
        return rdmsr_safe(msr, value);
    *value = pmu_global_ctrl(cpu);
    return true;
}

bool pmu_write(struct cpu *cpu, uint32_t msr, uint64_t value)
{
    if (!cpu->boot->options.pmu)
        return false;
    if (msr != IA32_PERF_GLOBAL_CTRL)
        return wrmsr_safe(msr, value);
    if (value & ~cpu->pmu.global_ctrl_valid)
        return false;
    pmu_set_global_ctrl(cpu, value);
    return true;
}
