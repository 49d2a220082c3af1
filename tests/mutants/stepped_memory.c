/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory trace without its records: what is left is the price of the violation and the step.
 * That code is compiled once more, with these in the place of what writes records.
 */
#include "trace/level.h"
#include "trace/memory_record.h"

#include "nmi/nmi.h"
#include "vmx/exit/exit.h"

static inline struct trace_memory *begin_nothing(struct cpu *cpu)
{
    cpu->memory.begun++;
    return (struct trace_memory *)cpu->trace.record;
}

static inline void publish_nothing(struct cpu *cpu)
{
    cpu->memory.begun = 0;
}

#define memory_record_begin(cpu, flags, gla, gpa) begin_nothing(cpu)
#define memory_record_publish(cpu) publish_nothing(cpu)

/* Its functions, under the names that the Makefile looks for. */
#define memory_exit(cpu) __wrap_memory_exit(cpu)
#define memory_violation(cpu) __wrap_memory_violation(cpu)
#define memory_close(cpu, cr3) __wrap_memory_close(cpu, cr3)
#define memory_begin_step(cpu, map, row) __wrap_memory_begin_step(cpu, map, row)
#define memory_end_step(cpu) __wrap_memory_end_step(cpu)
#define memory_step_setup(none) __wrap_memory_step_setup(none)

exit_handler memory_exit(struct cpu *cpu);
void memory_violation(struct cpu *cpu);
void memory_close(struct cpu *cpu, uint64_t cr3);
void memory_begin_step(struct cpu *cpu, uint64_t map, const exit_handler *row);
void memory_end_step(struct cpu *cpu);
void memory_step_setup(void);

#include "trace/memory_step.c"
