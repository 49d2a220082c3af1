/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that shows VMX in CPUID, as if that row of its table were missing, and that takes an
 * argument of a hypercall for a pointer: the guest's fuzzer must see both.
 */
#include "hypercall.h"
#include "vmx/exit/exit.h"

#define LEAF_FEATURES 1
#define FEATURES_ECX_VMX BIT(5)

void __real_exit_cpuid(struct cpu *cpu);
void __real_exit_vmcall(struct cpu *cpu);

void __wrap_exit_cpuid(struct cpu *cpu)
{
    uint32_t leaf = (uint32_t)cpu->gpr[GPR_RAX];

    __real_exit_cpuid(cpu);
    if (leaf == LEAF_FEATURES)
        cpu->gpr[GPR_RCX] |= FEATURES_ECX_VMX;
}

void __wrap_exit_vmcall(struct cpu *cpu)
{
    if (cpu->gpr[GPR_RAX] == HYPERCALL_STATISTICS)
        (void)*(volatile uint8_t *)cpu->gpr[GPR_RBX];
    __real_exit_vmcall(cpu);
}
