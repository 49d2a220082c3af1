/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory trace without its records: what is left is the price of the violation and the step.
 * The exits of a write are those of memory_exit.c, but for what makes a record and looks at
 * the code for it.
 */
#include "experiments/memory/hypervisor/memory_record.h"

void with_records(struct cpu *cpu);
void trap_again(struct cpu *cpu);
void other_again(struct cpu *cpu);
void set_up_again(struct cpu *cpu);
void __wrap_memory_exit_write(struct cpu *cpu);
void __wrap_memory_exit_trap(struct cpu *cpu);

#define memory_exit_write with_records
#define memory_exit_trap trap_again
#define memory_exit_other other_again
#define memory_exit_setup set_up_again
#include "experiments/memory/hypervisor/memory_exit.c"

static inline bool begin_without_record(struct cpu *cpu)
{
    struct cpu_memory *m = memory_of(cpu);

    if (!memory_is_plain_write(read_field(VMCS_EXIT_QUALIFICATION)) ||
        read_field(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID ||
        read_field(VMCS_GUEST_RFLAGS) & RFLAGS_TF)
        return false;
    write_field(VMCS_EPT_POINTER, m->open);
    write_field(VMCS_PRIMARY_CONTROLS, m->primary | PRIMARY_MONITOR_TRAP_FLAG);
    write_field(VMCS_EXCEPTION_BITMAP, m->step_exceptions);
    write_field(VMCS_GUEST_INTERRUPTIBILITY_STATE,
                (cpu->blocking & ~(uint32_t)BLOCKING_BY_STI) | BLOCKING_BY_MOV_SS);
    m->stage = STAGE_STEPPED;
    return true;
}

static inline void end_without_record(struct cpu *cpu)
{
    struct cpu_memory *m = memory_of(cpu);

    write_field(VMCS_EPT_POINTER, m->closed);
    write_field(VMCS_PRIMARY_CONTROLS, m->primary);
    write_field(VMCS_EXCEPTION_BITMAP, m->exceptions);
    m->stage = STAGE_CLOSED;
}

void __wrap_memory_exit_write(struct cpu *cpu)
{
    if (memory_of(cpu)->stage != STAGE_CLOSED || !begin_without_record(cpu))
        with_records(cpu);
}

void __wrap_memory_exit_trap(struct cpu *cpu)
{
    if (memory_of(cpu)->stage == STAGE_STEPPED)
        end_without_record(cpu);
    else
        other_again(cpu);
}
