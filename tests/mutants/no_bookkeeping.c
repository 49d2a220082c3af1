/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor without the NMI bookkeeping of an exit, to price it: it does not even read the
 * guest's interruptibility state. SDM Vol. 3, "Guest Non-Register State". Linked instead of
 * vmx/exit/exit.c's function.
 */
#include "vmx/exit/exit.h"
#include "vmx/vmcs.h"

exit_handler __wrap_vmx_exit(struct cpu *cpu);

exit_handler __wrap_vmx_exit(struct cpu *cpu)
{
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    if (__builtin_expect(reason >= EXIT_REASON_COUNT, 0))
        reason = EXIT_REASON_COUNT;
    cpu->exits[reason]++;
    return cpu->handlers[reason];
}
