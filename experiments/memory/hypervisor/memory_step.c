/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Steps one instruction under the open map.
 *
 * No event comes between the entry and the instruction, because blocking by MOV SS holds back
 * interrupts, NMIs and debug exceptions. After the instruction, the monitor trap flag's exit comes
 * before all of these events. Something else may end the step in place of the instruction: an
 * exception, an exit that the instruction causes itself, or the preemption timer. Then the access
 * did not happen. Root mode drops the record and restores the closed map. When the guest tries the
 * instruction again, the instruction violates the closed map again. An INIT may come before or
 * after the instruction. RIP tells which.
 *
 * According to the SDM, MOV SS blocks all of these events, but for some of them the SDM says "may".
 * The option memtrace_step=exits is for a processor that does not block these events. The option
 * makes interrupts and NMIs exit during a step. Such an event ends the step, and comes after the
 * exit, under the closed map. Three kinds of instruction are always stepped this way. The first
 * kind is an instruction that does not write, because it may be a load of SS. A load of SS blocks
 * events itself. In a step that begins with blocking by MOV SS, the load's own blocking would be
 * lost: if two loads come in a row, "only the first" is certain to block. The second kind is an
 * instruction that the guest itself single-steps. The trap of the guest's step then stays pending
 * together with the other waiting events, as the processor itself keeps it. The third kind is an
 * instruction for which a page walk, or a store for PEBS or Intel PT, caused the violation. Such an
 * instruction may be a load of SS, too. SDM Vol. 3, "Monitor Trap Flag"; "Masking Exceptions and
 * Interrupts When Switching Stacks"; "Checks on Guest Non-Register State".
 */
#include "experiments/memory/hypervisor/memory_record.h"

#include "experiments/shared/hypervisor/cr3.h"
#include "vmx/exit/exit.h"

/* Returns the primary controls outside a step. A step also sets the monitor trap flag. The other
 * controls change only if NMIs are trapped. */
static uint32_t step_controls(const struct cpu *cpu)
{
    if (__builtin_expect(cpu->nmi.passthrough, 1))
        return memory_of(cpu)->primary;
    return (vmcs_read_32(VMCS_PRIMARY_CONTROLS) & ~(uint32_t)PRIMARY_MONITOR_TRAP_FLAG) |
           (memory_of(cpu)->primary & PRIMARY_MONITOR_TRAP_FLAG);
}

void memory_select_map(struct cpu *cpu, uint64_t cr3)
{
    const struct cpu_memory *m = memory_of(cpu);
    uint64_t other = m->cr3 == 0 ? 0 : (m->cr3 ^ cr3) & BITS(51, 11);

    /* Under page-table isolation, both page tables of a process get the closed map. */
    vmcs_write_64(VMCS_EPT_POINTER,
                  (other & ~BIT(11)) == 0 || other == CR3_USER_SIDE ? m->closed : m->open);
}

/* ---- the step's end ---- */

/* Turns exits on or off for events that can arrive before the next instruction. If the guest blocks
 * an event, its exits stay off: blocking does not prevent exits, so the event would exit again and
 * again. If NMIs are trapped, they exit anyway. With virtual NMIs, an IRET unblocks NMIs just as it
 * does without virtual NMIs. SDM Vol. 3, "Interruptibility State"; "Event Blocking". */
static void set_event_exiting(const struct cpu *cpu, bool on)
{
    uint32_t pin = vmcs_read_32(VMCS_PIN_BASED_CONTROLS);
    uint32_t blocking = vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE);
    const uint32_t nmis = cpu->nmi.passthrough ? PIN_NMI_EXITING | PIN_VIRTUAL_NMIS : 0;

    pin &= ~(nmis | (uint32_t)PIN_EXTERNAL_INTERRUPT_EXITING);
    if (on && !(blocking & BLOCKING_BY_NMI))
        pin |= nmis;
    if (on && vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_IF &&
        !(blocking & (BLOCKING_BY_STI | BLOCKING_BY_MOV_SS)))
        pin |= PIN_EXTERNAL_INTERRUPT_EXITING;
    vmcs_write_32(VMCS_PIN_BASED_CONTROLS, pin);
}

void memory_end_step(struct cpu *cpu)
{
    if (memory_of(cpu)->by_exits)
        set_event_exiting(cpu, false);
    vmcs_write_64(VMCS_EPT_POINTER, memory_of(cpu)->closed);
    vmcs_write_32(VMCS_PRIMARY_CONTROLS, step_controls(cpu));
    vmcs_write_32(VMCS_EXCEPTION_BITMAP, memory_of(cpu)->exceptions);
    memory_of(cpu)->row = trace_of(cpu)->under;
    memory_of(cpu)->stage = memory_of(cpu)->plain ? STAGE_CLOSED : STAGE_WHOLE;
}

void memory_step_trapped(struct cpu *cpu)
{
    memory_end_step(cpu);
    if (memory_of(cpu)->primary & PRIMARY_MONITOR_TRAP_FLAG) {
        memory_of(cpu)->primary &= ~(uint32_t)PRIMARY_MONITOR_TRAP_FLAG;
        trace_of(cpu)->under[EXIT_REASON_MONITOR_TRAP_FLAG](cpu);
    }
}

void memory_abandon_step(struct cpu *cpu)
{
    const struct trace_memory *record = (const struct trace_memory *)trace_of(cpu)->record;
    bool retired = memory_of(cpu)->begun > 0 && record->rip != vmcs_read_natural(VMCS_GUEST_RIP);

    memory_end_step(cpu);
    if (retired) {
        memory_record_publish(cpu);
        return;
    }
    /* Blocking by MOV SS may stay, because the guest tries the instruction again. */
    memory_of(cpu)->begun = 0;
}

/* ---- the step's beginning ---- */

void memory_block_events(struct cpu *cpu, uint64_t qualification)
{
    uint32_t blocking = cpu->blocking & ~(uint32_t)BLOCKING_BY_STI;

    if (memory_of(cpu)->by_exits) {
        memory_keep_nmi_blocked(cpu, qualification);
        /* If the guest single-steps while STI or MOV SS blocks, the entry fails unless the step is
         * among the pending debug exceptions. The exit may not have saved the step there. */
        if (cpu->blocking & BLOCKING_BY_STI_OR_MOV_SS)
            pend_step_in_shadow();
        set_event_exiting(cpu, true);
        return;
    }
    if (qualification & EPT_VIOLATION_NMI_UNBLOCKING)
        blocking |= BLOCKING_BY_NMI;
    vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE, blocking | BLOCKING_BY_MOV_SS);
}

void memory_begin_step(struct cpu *cpu, uint64_t map, const exit_handler *row)
{
    vmcs_write_64(VMCS_EPT_POINTER, map);
    vmcs_write_32(VMCS_PRIMARY_CONTROLS, step_controls(cpu) | PRIMARY_MONITOR_TRAP_FLAG);
    vmcs_write_32(VMCS_EXCEPTION_BITMAP, memory_of(cpu)->step_exceptions);
    memory_of(cpu)->row = row;
    memory_of(cpu)->stage = STAGE_WHOLE;
}

/* A record's flags are the bits of the exit qualification. */
_Static_assert(TRACE_READ == EPT_VIOLATION_READ && TRACE_WRITE == EPT_VIOLATION_WRITE, "they are");

void memory_step_instruction(struct cpu *cpu, uint64_t qualification, uint32_t flags, uint64_t gla,
                             uint64_t gpa, const exit_handler *row)
{
    struct cpu_memory *m = memory_of(cpu);
    uint32_t recorded = (uint32_t)(qualification & m->recorded);

    if (memory_is_traced(cpu, gla, gpa) && recorded != 0)
        memory_record_begin(cpu, recorded | flags, gla, gpa);
    m->rsi = cpu->gpr[GPR_RSI];
    m->by_exits = memory_options.exits || flags & TRACE_INEXACT ||
                  !(qualification & EPT_VIOLATION_WRITE) ||
                  vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_TF;
    memory_block_events(cpu, qualification);
    memory_begin_step(cpu, qualification & EPT_VIOLATION_WRITE ? m->open : m->half_open, row);
}
