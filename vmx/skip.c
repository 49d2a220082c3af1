/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the end of an instruction that is skipped changes besides RIP, where it changes anything.
 * SDM Vol. 3, "Guest Non-Register State".
 */
#include "vmx/inject.h"

void end_instruction(const struct cpu *cpu)
{
    uint64_t rflags = vmcs_read_natural(VMCS_GUEST_RFLAGS);

    if (cpu->blocking & BLOCKING_ENDS_BEHIND)
        vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE, cpu->blocking & ~BLOCKING_ENDS_BEHIND);
    if (rflags & RFLAGS_RF)
        vmcs_write_natural(VMCS_GUEST_RFLAGS, rflags & ~RFLAGS_RF);
    if (rflags & RFLAGS_TF && !(vmcs_read_64(VMCS_GUEST_IA32_DEBUGCTL) & DEBUGCTL_BTF))
        vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS,
                           vmcs_read_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS) |
                               PENDING_DEBUG_BS);
}
