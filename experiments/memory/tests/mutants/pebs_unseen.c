/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that asks the register for the guest's PEBS where MSR lists switch it: a memory
 * trace must be seen to begin with PEBS on.
 */
#include "pmu/pmu.h"
#include "vmx/root/fault.h"

bool __real_pmu_access_register(struct cpu *cpu, uint32_t index, uint64_t *value, bool write);
bool __wrap_pmu_access_register(struct cpu *cpu, uint32_t index, uint64_t *value, bool write);

bool __wrap_pmu_access_register(struct cpu *cpu, uint32_t index, uint64_t *value, bool write)
{
    if (index == IA32_PEBS_ENABLE && !write)
        return rdmsr_safe(index, value);
    return __real_pmu_access_register(cpu, index, value, write);
}
