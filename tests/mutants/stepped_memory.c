/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory trace without its records: what is left is the price of the violation and the step.
 * The exits of a write are compiled once more, with nothing in the place of what writes a record.
 */
#include "trace/memory_record.h"

#include "nmi/nmi.h"

exit_handler with_records(struct cpu *cpu);
exit_handler __wrap_memory_exit(struct cpu *cpu);

#define memory_record_fill(cpu, record, ...) ((void)(record))
#define memory_exit with_records
#include "trace/memory_exit.c"

static inline void end_without_record(struct cpu *cpu)
{
    struct cpu_memory *m = &cpu->memory;

    set_field(VMCS_EPT_POINTER, m->closed);
    set_field(VMCS_PRIMARY_CONTROLS, m->primary);
    set_field(VMCS_EXCEPTION_BITMAP, 0);
    m->row = cpu->handlers;
    m->stage = STAGE_CLOSED;
    m->begun = 0;
}

exit_handler __wrap_memory_exit(struct cpu *cpu)
{
    uint32_t reason;

    cpu->blocking = (uint32_t)field(VMCS_GUEST_INTERRUPTIBILITY_STATE);
    if (__builtin_expect(nmi_after_exit(cpu), 0))
        return exit_whole;
    reason = (uint32_t)field(VMCS_EXIT_REASON);
    if (reason == EXIT_REASON_MONITOR_TRAP_FLAG && cpu->memory.stage == STAGE_STEPPED)
        end_without_record(cpu);
    else if (reason != EXIT_REASON_EPT_VIOLATION || cpu->memory.stage != STAGE_CLOSED ||
             !begin(cpu))
        return exit_whole;
    cpu->exits[reason]++;
    return NULL;
}
