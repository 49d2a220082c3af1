/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor whose own branches are recorded during a CPUID exit: the guest must be seen to find
 * them among its records.
 */
#include "msr.h"
#include "vmx/exit/exit.h"
#include "x86.h"

void __real_exit_cpuid(struct cpu *cpu);

void __wrap_exit_cpuid(struct cpu *cpu)
{
    wrmsr(IA32_DEBUGCTL, DEBUGCTL_LBR);
    __real_exit_cpuid(cpu);
    wrmsr(IA32_DEBUGCTL, 0);
}
