/* SPDX-License-Identifier: BSD-2-Clause
 *
 * policy=intercept: the guest's accesses to the PMU exit and are done on the hardware for it, the
 * floor of any trap-and-emulate. The counters do not count in root mode, so they hold what the
 * guest's instruction would have found. GLOBAL_CTRL is 0 in root mode: its guest value lives in the
 * VMCS or its list. SDM Vol. 3, "Performance Monitoring".
 */
#include "pmu.h"

#include "../vmx/fault.h"

bool pmu_access(struct cpu *cpu, uint32_t index, uint64_t *value, bool write)
{
    if (!cpu->boot->options.pmu)
        return false;
    if (index != IA32_PERF_GLOBAL_CTRL)
        return write ? wrmsr_safe(index, *value) : rdmsr_safe(index, value);
    if (!write)
        *value = pmu_global_ctrl(cpu);
    else if (*value & ~cpu->pmu.global_ctrl_valid)
        return false;
    else
        pmu_set_global_ctrl(cpu, *value);
    return true;
}
