/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Events at closed pages. When the delivery of an event violates the map, the event is injected
 * again under the open map: what the delivery had already written is written again. The exit of the
 * monitor trap flag comes after the delivery, before the handler's first instruction. Then the
 * whole frame is there, and is recorded. SDM Vol. 3, "Information for VM Exits That Occur During
 * Event Delivery"; "VM-Entry Controls for Event Injection"; "Stack Switching with Stack-Segment
 * Switching in 64-Bit Mode".
 */
#include "experiments/memory/hypervisor/memory_record.h"

#define FRAME_WORDS 5 /* SS, RSP, RFLAGS, CS, RIP; and an error code */
#define WORD 8

static void record_piece(struct cpu *cpu, uint64_t at, uint32_t bytes)
{
    const struct cpu_memory *m = memory_of(cpu);
    uint64_t gpa = (m->event_gpa & ~(PAGE_SIZE - 1)) | at % PAGE_SIZE;

    if ((at ^ m->event_gla) / PAGE_SIZE != 0 && !memory_translate(cpu, at, &gpa, NULL))
        return; /* it was just written: not reached */
    if (memory_of_guest(cpu, gpa) == NULL || !memory_wanted(cpu, at, gpa))
        return;
    struct trace_memory *record = memory_record_begin(cpu, TRACE_WRITE | TRACE_EVENT, at, gpa);
    record->detail = m->event & (uint32_t)BITS(11, 0);
    record->bytes = bytes;
    memory_record_publish(cpu);
}

static void record_frame(struct cpu *cpu)
{
    uint64_t rsp = vmcs_read_natural(VMCS_GUEST_RSP);
    uint32_t bytes = FRAME_WORDS * WORD;

    /* Of a device root mode may read nothing, and so has no frame. */
    if (memory_of(cpu)->mode == MEMTRACE_READS || memory_of(cpu)->mode == MEMTRACE_DEVICES)
        return;
    if (memory_of(cpu)->event & INTERRUPTION_ERROR_CODE)
        bytes += WORD;
    if (!(vmcs_read_64(VMCS_GUEST_IA32_EFER) & EFER_LMA)) {
        const struct cpu_memory *m = memory_of(cpu);

        memory_record_begin(cpu, TRACE_WRITE | TRACE_EVENT | TRACE_INEXACT, m->event_gla,
                            m->event_gpa)->detail = m->event & (uint32_t)BITS(11, 0);
        memory_record_publish(cpu);
        return;
    }
    /* The processor pushes downwards: what is above a page's end came first. */
    uint32_t left = (uint32_t)(PAGE_SIZE - rsp % PAGE_SIZE);
    if (left < bytes) {
        record_piece(cpu, rsp + left, bytes - left);
        bytes = left;
    }
    record_piece(cpu, rsp, bytes);
}

static void event_trap(struct cpu *cpu)
{
    memory_step_trapped(cpu);
    record_frame(cpu);
}

/* Without vectoring information it came after the delivery. */
static void event_other(struct cpu *cpu)
{
    memory_end_step(cpu);
    if (!(vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID))
        record_frame(cpu);
    trace_of(cpu)->under[exit_reason()](cpu);
}

static void event_exception(struct cpu *cpu)
{
    uint32_t information = vmcs_read_32(VMCS_EXIT_INTERRUPTION_INFORMATION);

    if (interruption_type(information) == INTERRUPTION_TYPE_NMI ||
        memory_exits_anyway(cpu, information)) {
        event_other(cpu);
        return;
    }
    memory_end_step(cpu);
    deliver_exception(cpu);
}

static exit_handler event_row[EXIT_REASON_COUNT + 1];

void memory_event_setup(void)
{
    for (unsigned reason = 0; reason <= EXIT_REASON_COUNT; reason++)
        event_row[reason] = event_other;
    event_row[EXIT_REASON_MONITOR_TRAP_FLAG] = event_trap;
    event_row[EXIT_REASON_EXCEPTION_OR_NMI] = event_exception;
}

void memory_event(struct cpu *cpu, uint32_t vectoring, uint64_t gla, uint64_t gpa)
{
    memory_of(cpu)->event = vectoring;
    memory_of(cpu)->event_gla = gla;
    memory_of(cpu)->event_gpa = gpa;
    deliver_again(cpu, vectoring);
    memory_begin_step(cpu, memory_of(cpu)->open, event_row);
}
