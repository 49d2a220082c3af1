/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor whose exit path calls itself, as often as the guest's RAX says: stack.py must
 * refuse it.
 */
#include "vmx/cpu.h"
#include "vmx/exit/exit.h"

void __real_vmx_exit(struct cpu *cpu);

unsigned long deep(struct cpu *cpu, unsigned long left)
{
    volatile unsigned long here = left;

    return left == 0 ? 0 : deep(cpu, left - 1) + here;
}

void __wrap_vmx_exit(struct cpu *cpu)
{
    cpu->gpr[GPR_RAX] = deep(cpu, cpu->gpr[GPR_RAX]);
    __real_vmx_exit(cpu);
}
