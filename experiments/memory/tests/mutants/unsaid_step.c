/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A processor whose exits save no single step while MOV SS blocks debug exceptions, as the SDM lets
 * it: the step of a store there must begin all the same, and the guest's own single step must come.
 */
#include "experiments/memory/hypervisor/memory_record.h"

void __real_memory_violation(struct cpu *cpu);
void __wrap_memory_violation(struct cpu *cpu);

void __wrap_memory_violation(struct cpu *cpu)
{
    vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS,
                       vmcs_read_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS) &
                           ~(uint64_t)PENDING_DEBUG_BS);
    __real_memory_violation(cpu);
}
