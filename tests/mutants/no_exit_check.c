/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor without the NMI check of an exit, to price it. It does read the guest's
 * interruptibility state, because skipping an instruction needs it. SDM Vol. 3, "Guest
 * Interruptibility State". Linked instead of vmx/exit/exit.c's function.
 */
#include "vmx/exit/exit.h"

void __wrap_vmx_exit(struct cpu *cpu)
{
    cpu->blocking = vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE);
    dispatch_exit(cpu);
}
