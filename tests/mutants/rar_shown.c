/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that shows IA32_CORE_CAPABILITIES as it is: what that enumerates must be seen to be
 * absent.
 */
#include "msr.h"
#include "vmx/exit/exit.h"
#include "vmx/root/fault.h"

void __real_exit_rdmsr(struct cpu *cpu);

void __wrap_exit_rdmsr(struct cpu *cpu)
{
    uint64_t value;

    if ((uint32_t)cpu->gpr[GPR_RCX] != IA32_CORE_CAPABILITIES ||
        !rdmsr_safe(IA32_CORE_CAPABILITIES, &value)) {
        __real_exit_rdmsr(cpu);
        return;
    }
    cpu->gpr[GPR_RAX] = (uint32_t)value;
    cpu->gpr[GPR_RDX] = value >> 32;
    skip_instruction(cpu);
}
