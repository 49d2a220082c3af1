/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory trace without its records: what is left is the price of the violation and the step.
 */
#include "trace/memory.h"

struct trace_memory *__wrap_memory_record_begin(struct cpu *, uint32_t, uint64_t, uint64_t);
void __wrap_memory_record_publish(struct cpu *);

struct trace_memory *
__wrap_memory_record_begin(struct cpu *cpu, uint32_t flags, uint64_t gla, uint64_t gpa)
{
    (void)flags, (void)gla, (void)gpa;
    cpu->memory.begun++;
    return (struct trace_memory *)cpu->trace.record;
}

void __wrap_memory_record_publish(struct cpu *cpu)
{
    cpu->memory.begun = 0;
}
