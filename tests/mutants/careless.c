/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that does not keep the guest's NMI blocking at a CPUID exit, and not its R11 at a
 * WRMSR: the guest must see an NMI inside its NMI handler, and the changed register.
 */
#include "vmx/exit/exit.h"
#include "vmx/vmcs.h"

#define WRONG 0xbad

void __real_exit_cpuid(struct cpu *cpu);
void __real_exit_wrmsr(struct cpu *cpu);

void __wrap_exit_cpuid(struct cpu *cpu)
{
    __real_exit_cpuid(cpu);
    vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE, 0);
}

void __wrap_exit_wrmsr(struct cpu *cpu)
{
    __real_exit_wrmsr(cpu);
    cpu->gpr[GPR_R11] = WRONG;
}
