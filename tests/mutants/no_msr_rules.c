/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that lets every MSR through: each row of the table must be seen to matter, and what
 * the bitmap cannot name, too.
 */
#include "vmx/exit/exit.h"
#include "vmx/root/fault.h"

void __wrap_msr_setup(struct cpu *cpu, const uint32_t *controls) {}

static void finish(const struct cpu *cpu, bool done)
{
    if (done)
        skip_instruction(cpu);
    else
        inject_gp();
}

void __wrap_exit_rdmsr(struct cpu *cpu)
{
    uint64_t value = 0;
    bool done = rdmsr_safe((uint32_t)cpu->gpr[GPR_RCX], &value);

    if (done) {
        cpu->gpr[GPR_RAX] = (uint32_t)value;
        cpu->gpr[GPR_RDX] = value >> 32;
    }
    finish(cpu, done);
}

void __wrap_exit_wrmsr(struct cpu *cpu)
{
    finish(cpu, wrmsr_safe((uint32_t)cpu->gpr[GPR_RCX],
                           (uint32_t)cpu->gpr[GPR_RAX] | cpu->gpr[GPR_RDX] << 32));
}
