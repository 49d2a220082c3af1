/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A memory trace that takes what an event's delivery wrote for the word that violated the map
 * first, as Schmidt's does: no record has what came behind it.
 */
#include "experiments/memory/hypervisor/memory_event.h"
#include "experiments/memory/hypervisor/memory_record.h"

void __wrap_memory_event(struct cpu *cpu, uint32_t vectoring, uint64_t gla, uint64_t gpa);

void __wrap_memory_event(struct cpu *cpu, uint32_t vectoring, uint64_t gla, uint64_t gpa)
{
    struct trace_memory *record = memory_record_begin(cpu, TRACE_WRITE | TRACE_EVENT, gla, gpa);

    record->detail = vectoring & (uint32_t)BITS(11, 0);
    record->bytes = sizeof(uint64_t);
    deliver_event_again(cpu, vectoring);
    memory_begin_step(cpu, memory_of(cpu)->open, memory_step_row);
}
