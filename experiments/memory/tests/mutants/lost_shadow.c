/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that steps a read as it steps a write, by blocking events as MOV SS does: a load of
 * SS must be seen to lose its own blocking.
 */
#include "experiments/memory/hypervisor/memory_record.h"

void __real_memory_violation(struct cpu *cpu);
void __wrap_memory_violation(struct cpu *cpu);

void __wrap_memory_violation(struct cpu *cpu)
{
    __real_memory_violation(cpu);
    if (memory_of(cpu)->row != memory_step_row)
        return;
    vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE,
                  (cpu->blocking & ~(uint32_t)BLOCKING_BY_STI) | BLOCKING_BY_MOV_SS);
    if (vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_TF)
        vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS, PENDING_DEBUG_BS);
}
