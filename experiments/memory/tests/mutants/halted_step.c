/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Plays a processor that stores a PEBS record while it halts and does not say that the violation is
 * asynchronous: some steps of a write begin in HLT, so that their entry fails.
 */
#include "experiments/memory/hypervisor/memory_record.h"

#define STEPS_APART 7

void __real_memory_exit_write(struct cpu *cpu);
void __wrap_memory_exit_write(struct cpu *cpu);

void __wrap_memory_exit_write(struct cpu *cpu)
{
    static unsigned steps;

    __real_memory_exit_write(cpu);
    if (memory_of(cpu)->stage == STAGE_STEPPED && ++steps % STEPS_APART == 0)
        vmcs_write_32(VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_HLT);
}
