/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor without the NMI check of an exit, to price it. It does read the guest's
 * interruptibility state, because skipping an instruction needs it. SDM Vol. 3, "Guest
 * Interruptibility State". Linked instead of vmx/exit/exit.c's function.
 */
#include "vmx/exit/exit.h"
#include "vmx/vmcs.h"

exit_handler __wrap_vmx_exit(struct cpu *cpu);

exit_handler __wrap_vmx_exit(struct cpu *cpu)
{
    cpu->blocking = vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE);
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    if (__builtin_expect(reason >= EXIT_REASON_COUNT, 0))
        reason = EXIT_REASON_COUNT;
    cpu->exits[reason]++;
    return cpu->handlers[reason];
}
