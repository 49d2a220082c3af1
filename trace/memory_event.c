/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Events at closed pages. What a delivery has written when it violates the map is written again:
 * the event is injected anew under the open map, with the exit of the monitor trap flag behind its
 * delivery, before the handler's first instruction. The whole frame is there then, and is recorded.
 * SDM Vol. 3, "Information for VM Exits That Occur During Event Delivery"; "VM-Entry Controls for
 * Event Injection"; "Stack Switching with Stack-Segment Switching in 64-Bit Mode".
 */
#include "trace/memory_record.h"

#include "nmi/nmi.h"
#include "vmx/exit/exit.h"

#define FRAME_WORDS 5 /* SS, RSP, RFLAGS, CS, RIP; and an error code */
#define WORD 8

static uint32_t type_of(uint32_t information)
{
    return (information & INTERRUPTION_TYPE) >> INTERRUPTION_TYPE_SHIFT;
}

void memory_event_again(struct cpu *cpu, uint32_t vectoring)
{
    if (vectoring & INTERRUPTION_ERROR_CODE)
        vmcs_write_32(VMCS_ENTRY_EXCEPTION_ERROR_CODE,
                      vmcs_read_32(VMCS_IDT_VECTORING_ERROR_CODE));
    if (type_of(vectoring) >= INTERRUPTION_TYPE_SOFTWARE)
        vmcs_write_32(VMCS_ENTRY_INSTRUCTION_LENGTH, vmcs_read_32(VMCS_EXIT_INSTRUCTION_LENGTH));
    /* The NMI that was under way blocked others; so does its injection. */
    if (type_of(vectoring) == INTERRUPTION_TYPE_NMI)
        vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE,
                      cpu->blocking & ~(uint32_t)BLOCKING_BY_NMI);
    vmcs_write_32(VMCS_ENTRY_INTERRUPTION_INFORMATION,
                  vectoring & (uint32_t)(INTERRUPTION_VALID | BITS(11, 0)));
}

static void record_piece(struct cpu *cpu, uint64_t at, uint32_t bytes)
{
    const struct cpu_memory *m = &cpu->memory;
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

    if (cpu->memory.mode == MEMTRACE_READS)
        return;
    if (cpu->memory.event & INTERRUPTION_ERROR_CODE)
        bytes += WORD;
    if (!(vmcs_read_64(VMCS_GUEST_IA32_EFER) & EFER_LMA)) {
        const struct cpu_memory *m = &cpu->memory;

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
    memory_end_step(cpu);
    record_frame(cpu);
}

/* Without vectoring information it came behind the delivery. */
static void event_other(struct cpu *cpu)
{
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    memory_end_step(cpu);
    if (!(vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID))
        record_frame(cpu);
    cpu->handlers[reason < EXIT_REASON_COUNT ? reason : EXIT_REASON_COUNT](cpu);
}

static void event_violation(struct cpu *cpu)
{
    memory_end_step(cpu);
    exit_ept_violation(cpu);
}

static void event_exception(struct cpu *cpu)
{
    if (type_of(vmcs_read_32(VMCS_EXIT_INTERRUPTION_INFORMATION)) == INTERRUPTION_TYPE_NMI) {
        event_other(cpu);
        return;
    }
    memory_end_step(cpu);
    memory_exception(cpu);
}

static exit_handler event_row[EXIT_REASON_COUNT + 1];

void memory_event_setup(void)
{
    for (unsigned reason = 0; reason <= EXIT_REASON_COUNT; reason++)
        event_row[reason] = event_other;
    event_row[EXIT_REASON_MONITOR_TRAP_FLAG] = event_trap;
    event_row[EXIT_REASON_EPT_VIOLATION] = event_violation;
    event_row[EXIT_REASON_EXCEPTION_OR_NMI] = event_exception;
}

void memory_event(struct cpu *cpu, uint32_t vectoring, uint64_t gla, uint64_t gpa)
{
    cpu->memory.event = vectoring;
    cpu->memory.event_gla = gla;
    cpu->memory.event_gpa = gpa;
    memory_event_again(cpu, vectoring);
    memory_begin_step(cpu, cpu->memory.open, event_row);
}

/* What becomes of an exception that comes in the delivery of another. SDM Vol. 3, "Interrupt 8 -
 * Double Fault Exception (#DF)". */
static enum delivery_fault becomes(uint32_t vectoring, uint32_t vector)
{
    enum delivery_fault fault = delivery_fault(vectoring);
    bool contributory = BIT(vector) & MAKES_DOUBLE_FAULT;

    if (fault != DELIVERY_DOUBLE_FAULT)
        return fault;
    bool after_page_fault = (vectoring & INTERRUPTION_VECTOR) == VECTOR_PF;
    if (vector == VECTOR_PF && !after_page_fault)
        return DELIVERY_GP;
    return contributory ? DELIVERY_DOUBLE_FAULT : DELIVERY_GP;
}

void memory_exception(struct cpu *cpu)
{
    uint32_t information = vmcs_read_32(VMCS_EXIT_INTERRUPTION_INFORMATION);
    uint32_t vector = information & (uint32_t)INTERRUPTION_VECTOR;
    enum delivery_fault fault = becomes(vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION), vector);

    if (fault == DELIVERY_SHUTDOWN)
        exit_triple_fault(cpu);
    /* The exit has not written it, nor will the entry. */
    if (vector == VECTOR_PF)
        write_cr2(vmcs_read_natural(VMCS_EXIT_QUALIFICATION));
    if (fault == DELIVERY_DOUBLE_FAULT) {
        inject_df();
        return;
    }
    if (information & INTERRUPTION_ERROR_CODE)
        vmcs_write_32(VMCS_ENTRY_EXCEPTION_ERROR_CODE,
                      vmcs_read_32(VMCS_EXIT_INTERRUPTION_ERROR_CODE));
    if (type_of(information) >= INTERRUPTION_TYPE_SOFTWARE)
        vmcs_write_32(VMCS_ENTRY_INSTRUCTION_LENGTH, vmcs_read_32(VMCS_EXIT_INSTRUCTION_LENGTH));
    vmcs_write_32(VMCS_ENTRY_INTERRUPTION_INFORMATION,
                  information & (uint32_t)(INTERRUPTION_VALID | BITS(11, 0)));
}
