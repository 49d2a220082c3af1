/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that takes the lent counter back whoever uses it by now: a guest's own counter must
 * be seen to stop with the trace.
 */
#include "pmu/pmu.h"

#define CONTROL_OF_COUNTER_0 0xfULL

void __wrap_pmu_give_counter_back(struct cpu *cpu);

void __wrap_pmu_give_counter_back(struct cpu *cpu)
{
    wrmsr(IA32_FIXED_CTR_CTRL, rdmsr(IA32_FIXED_CTR_CTRL) & ~CONTROL_OF_COUNTER_0);
    pmu_set_global_ctrl(cpu, pmu_get_global_ctrl(cpu) & ~BIT(GLOBAL_CTRL_FIXED_SHIFT));
}
