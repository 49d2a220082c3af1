/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One instruction under the open map.
 *
 * Nothing comes between the entry and the instruction: MOV SS blocks interrupts, NMIs and debug
 * exceptions there. Behind it comes the exit of the monitor trap flag, before all of these. What
 * else ends the step comes instead of the instruction (an exception, an exit that it causes itself,
 * the preemption timer), and then the access did not happen: the record is dropped, the closed map
 * is back, and the instruction violates it again when it is tried again. An INIT may come behind
 * it: RIP tells.
 * SDM Vol. 3, "Monitor Trap Flag"; "Masking Exceptions and Interrupts When Switching Stacks";
 * "Checks on Guest Non-Register State".
 */
#include "trace/level.h"
#include "trace/memory_record.h"

#include "nmi/nmi.h"
#include "vmx/exit/exit.h"

static exit_handler step_row[EXIT_REASON_COUNT + 1];

/* The controls change only where NMIs are trapped. */
static uint32_t controls(const struct cpu *cpu)
{
    if (__builtin_expect(cpu->nmi.passthrough, 1))
        return cpu->memory.primary;
    return vmcs_read_32(VMCS_PRIMARY_CONTROLS) & ~(uint32_t)PRIMARY_MONITOR_TRAP_FLAG;
}

void memory_close(struct cpu *cpu, uint64_t cr3)
{
    const struct cpu_memory *m = &cpu->memory;
    uint64_t other = m->cr3 == 0 ? 0 : (m->cr3 ^ cr3) & BITS(51, 11);

    /* Both halves of a process under page-table isolation. */
    vmcs_write_64(VMCS_EPT_POINTER,
                  (other & ~BIT(11)) == 0 || other == CR3_USER_SIDE ? m->closed : m->open);
}

/* ---- the step's end ---- */

static inline void end_step(struct cpu *cpu)
{
    vmcs_write_64(VMCS_EPT_POINTER, cpu->memory.closed);
    vmcs_write_32(VMCS_PRIMARY_CONTROLS, controls(cpu));
    vmcs_write_32(VMCS_EXCEPTION_BITMAP, 0);
    cpu->memory.row = cpu->handlers;
}

void memory_end_step(struct cpu *cpu) { end_step(cpu); }

static inline void trap(struct cpu *cpu)
{
    end_step(cpu);
    memory_record_publish(cpu);
}

static void step_trap(struct cpu *cpu) { trap(cpu); }

static void give_up(struct cpu *cpu)
{
    const struct trace_memory *record = (const struct trace_memory *)cpu->trace.record;
    bool retired = cpu->memory.begun > 0 && record->rip != vmcs_read_natural(VMCS_GUEST_RIP);

    end_step(cpu);
    if (retired) {
        memory_record_publish(cpu);
        return;
    }
    cpu->memory.begun = 0;
    if (vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_TF)
        vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS, cpu->memory.debug);
}

static void step_other(struct cpu *cpu)
{
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    give_up(cpu);
    cpu->handlers[reason < EXIT_REASON_COUNT ? reason : EXIT_REASON_COUNT](cpu);
}

static void step_exception(struct cpu *cpu)
{
    uint32_t information = vmcs_read_32(VMCS_EXIT_INTERRUPTION_INFORMATION);

    if ((information & INTERRUPTION_TYPE) >> INTERRUPTION_TYPE_SHIFT == INTERRUPTION_TYPE_NMI) {
        step_other(cpu);
        return;
    }
    give_up(cpu);
    memory_exception(cpu);
}

/* ---- its beginning ---- */

/* #DB is a trap here, and comes behind it. A machine check is the guest's own, as without a trace. */
#define STEP_EXCEPTIONS (~(uint32_t)(BIT(VECTOR_DB) | BIT(VECTOR_MC)))

/* Behind the instruction the single step of the guest's own traps as ever: the entry wants it to be
 * pending where something is blocked. */
static __attribute__((noinline)) void keep_single_step(struct cpu *cpu)
{
    cpu->memory.debug = vmcs_read_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS);
    if (!(vmcs_read_64(VMCS_GUEST_IA32_DEBUGCTL) & DEBUGCTL_BTF))
        vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS,
                           cpu->memory.debug | PENDING_DEBUG_BS);
}

/* `qualification` tells of an IRET that had unblocked NMIs before it violated the map. */
static inline void block(struct cpu *cpu, uint64_t qualification)
{
    uint32_t blocking = cpu->blocking & ~(uint32_t)BLOCKING_BY_STI;

    if (qualification & EPT_VIOLATION_NMI_UNBLOCKING)
        blocking |= BLOCKING_BY_NMI;
    vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE, blocking | BLOCKING_BY_MOV_SS);
    if (__builtin_expect(vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_TF, 0))
        keep_single_step(cpu);
}

static inline void begin_step(struct cpu *cpu, uint64_t map, const exit_handler *row)
{
    vmcs_write_64(VMCS_EPT_POINTER, map);
    vmcs_write_32(VMCS_PRIMARY_CONTROLS, controls(cpu) | PRIMARY_MONITOR_TRAP_FLAG);
    vmcs_write_32(VMCS_EXCEPTION_BITMAP, STEP_EXCEPTIONS);
    cpu->memory.row = row;
}

void memory_begin_step(struct cpu *cpu, uint64_t map, const exit_handler *row)
{
    begin_step(cpu, map, row);
}

/* The flags of a record are the exit qualification's bits. */
_Static_assert(TRACE_READ == EPT_VIOLATION_READ && TRACE_WRITE == EPT_VIOLATION_WRITE, "they are");

/* The half-open map lets reads pass: this is the write of the same instruction. */
static void step_violation(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint64_t gla = vmcs_read_natural(VMCS_GUEST_LINEAR_ADDRESS);
    uint64_t gpa = vmcs_read_64(VMCS_GUEST_PHYSICAL_ADDRESS);

    if (vmcs_read_64(VMCS_EPT_POINTER) == cpu->memory.open || !memory_of_guest(cpu, gpa) ||
        vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID) {
        give_up(cpu);
        if (vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID)
            memory_event(cpu, vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION), gla, gpa);
        else
            exit_ept_violation(cpu);
        return;
    }
    if (!(qualification & EPT_VIOLATION_TRANSLATED)) {
        give_up(cpu); /* the walk's record comes before the instruction's */
        memory_walk(cpu, qualification, gla, gpa);
        return;
    }
    if (memory_wanted(cpu, gla, gpa))
        memory_record_begin(cpu, (uint32_t)(qualification & cpu->memory.recorded), gla, gpa);
    vmcs_write_64(VMCS_EPT_POINTER, cpu->memory.open);
    block(cpu, qualification);
}

/* An event's delivery, a page walk, or, with a range of one process, another process. */
static __attribute__((noinline)) bool unusual(const struct cpu *cpu, uint64_t qualification)
{
    return vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID ||
           !(qualification & EPT_VIOLATION_TRANSLATED) ||
           vmcs_read_64(VMCS_EPT_POINTER) == cpu->memory.open;
}

/* An instruction's own access: its record, and the step. False, with nothing
 * done: it is another kind. No general register but those that a call may change is looked at. */
static inline __attribute__((always_inline)) bool plain_violation(struct cpu *cpu)
{
    const struct cpu_memory *m = &cpu->memory;
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint64_t map = m->open;

    if (__builtin_expect(vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID ||
                             !(qualification & EPT_VIOLATION_TRANSLATED) || m->cr3 != 0, 0) &&
        unusual(cpu, qualification))
        return false;
    uint64_t gpa = vmcs_read_64(VMCS_GUEST_PHYSICAL_ADDRESS);
    uint64_t gla = vmcs_read_natural(VMCS_GUEST_LINEAR_ADDRESS);
    if (!(qualification & EPT_VIOLATION_WRITE))
        map = m->half_open;
    if (__builtin_expect(memory_wanted(cpu, gla, gpa), 1) && qualification & m->recorded) {
        struct trace_memory *record =
            memory_record_begin(cpu, (uint32_t)(qualification & m->recorded), gla, gpa);

        if (__builtin_expect(record->tsc >= m->ends, 0)) {
            memory_keep_nmi_blocked(cpu, qualification);
            memory_stop(cpu);
            return true;
        }
        if (__builtin_expect(memory_may_be_rep(record), 0) && map == m->open &&
            memory_chunk(cpu, record))
            return true;
    }
    begin_step(cpu, map, step_row);
    block(cpu, qualification);
    return true;
}

void memory_violation(struct cpu *cpu)
{
    if (plain_violation(cpu))
        return;
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint32_t vectoring = vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION);
    uint64_t gpa = vmcs_read_64(VMCS_GUEST_PHYSICAL_ADDRESS);
    uint64_t gla = vmcs_read_natural(VMCS_GUEST_LINEAR_ADDRESS);

    if (vmcs_read_64(VMCS_EPT_POINTER) == cpu->memory.open)
        exit_ept_violation(cpu); /* another process */
    else if (qualification & EPT_VIOLATION_TRANSLATED)
        memory_event(cpu, vectoring, gla, gpa);
    else if (memory_walk(cpu, qualification, gla, gpa) && vectoring & INTERRUPTION_VALID)
        memory_event_again(cpu, vectoring);
}

void memory_step_setup(void)
{
    for (unsigned reason = 0; reason <= EXIT_REASON_COUNT; reason++)
        step_row[reason] = step_other;
    step_row[EXIT_REASON_MONITOR_TRAP_FLAG] = step_trap;
    step_row[EXIT_REASON_EPT_VIOLATION] = step_violation;
    step_row[EXIT_REASON_EXCEPTION_OR_NMI] = step_exception;
    memory_event_setup();
}

/* ---- the exit ---- */

static void exit_whole(struct cpu *cpu)
{
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    if (nmi_after_exit(cpu))
        exit_nmi_work(cpu);
    if (reason >= EXIT_REASON_COUNT)
        reason = EXIT_REASON_COUNT;
    cpu->exits[reason]++;
    cpu->memory.row[reason](cpu);
}

exit_handler memory_exit(struct cpu *cpu)
{
    cpu->blocking = vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE);
    if (__builtin_expect(nmi_after_exit(cpu), 0))
        return exit_whole;
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);
    if (reason == EXIT_REASON_MONITOR_TRAP_FLAG && cpu->memory.row == step_row)
        trap(cpu);
    else if (reason != EXIT_REASON_EPT_VIOLATION || cpu->memory.row != cpu->handlers ||
             !plain_violation(cpu))
        return exit_whole;
    cpu->exits[reason]++;
    return NULL;
}
