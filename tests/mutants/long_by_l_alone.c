/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that takes CS.L alone for 64-bit mode: in legacy mode, where software may set the
 * bit, an instruction at the end of 4 GiB must be seen to stop it.
 */
#include "vmx/exit/exit.h"
#include "vmx/root/fault.h"

void __real_exit_setup(struct cpu *cpu);

static void unexpected(struct cpu *cpu)
{
    if (vmcs_read_32(VMCS_GUEST_CS_ACCESS_RIGHTS) & ACCESS_LONG)
        hypervisor_fault("VM entry failed, guest RIP 0x%lx", vmcs_read_natural(VMCS_GUEST_RIP));
    exit_unexpected(cpu);
}

void __wrap_exit_setup(struct cpu *cpu)
{
    __real_exit_setup(cpu);
    cpu->handlers[EXIT_REASON_COUNT] = unexpected;
}
