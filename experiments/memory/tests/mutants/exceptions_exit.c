/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Plays another experiment's policy: it lets #UD and #PF exit, counts them in the guest's R15, and
 * gives them to the guest.
 */
#include "experiments/memory/hypervisor/state.h"

void __real_memory_setup(struct cpu *cpu, const struct vmx_capability *c);
void __wrap_memory_setup(struct cpu *cpu, const struct vmx_capability *c);

static void exception(struct cpu *cpu)
{
    cpu->gpr[GPR_R15]++;
    deliver_exception(cpu);
}

void __wrap_memory_setup(struct cpu *cpu, const struct vmx_capability *c)
{
    vmcs_write_32(VMCS_EXCEPTION_BITMAP, BIT(VECTOR_UD) | BIT(VECTOR_PF));
    cpu->handlers[EXIT_REASON_EXCEPTION_OR_NMI] = exception;
    __real_memory_setup(cpu, c);
}
