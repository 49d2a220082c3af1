/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A processor that had begun to deliver an NMI in the shadow of STI or MOV SS, as some do: the
 * entry that delivers it again must not keep the shadow.
 */
#include "vmx/exit/exit.h"

void __real_deliver_event_again(struct cpu *cpu, uint32_t vectoring);

void __wrap_deliver_event_again(struct cpu *cpu, uint32_t vectoring)
{
    if (interruption_type(vectoring) == INTERRUPTION_TYPE_NMI) {
        cpu->blocking |= vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_IF ? BLOCKING_BY_STI
                                                                          : BLOCKING_BY_MOV_SS;
        vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE, cpu->blocking);
    }
    __real_deliver_event_again(cpu, vectoring);
}
