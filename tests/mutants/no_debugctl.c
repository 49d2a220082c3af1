/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that lets a CPUID exit clear the guest's IA32_DEBUGCTL, as an exit does where "save
 * debug controls" is off: the guest must be seen to lose its branch records.
 */
#include "vmx/exit/exit.h"
#include "vmx/vmcs.h"

void __real_exit_cpuid(struct cpu *cpu);

void __wrap_exit_cpuid(struct cpu *cpu)
{
    __real_exit_cpuid(cpu);
    vmcs_write_64(VMCS_GUEST_IA32_DEBUGCTL, 0);
}
