/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that leaves a processor its memory trace over an INIT: the others must be seen to
 * get no trace of another range.
 */
#include "experiments/memory/hypervisor/memory_record.h"
#include "vmx/exit/exit.h"

void __real_memory_exit_setup(struct cpu *cpu);
void __wrap_memory_exit_setup(struct cpu *cpu);

void __wrap_memory_exit_setup(struct cpu *cpu)
{
    trace_of(cpu)->under[EXIT_REASON_INIT_SIGNAL] = exit_init;
    __real_memory_exit_setup(cpu);
}
