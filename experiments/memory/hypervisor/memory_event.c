/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Handles events whose delivery accesses closed pages. If the delivery of an event violates the
 * closed map, the event is injected again under the open map, and the second delivery writes again
 * what the first delivery had already written. The monitor trap flag's exit comes after the
 * delivery, before the handler's first instruction. At that time the whole frame is in memory, and
 * is recorded.
 *
 * A delivery that switches to a shadow stack marks the stack's token busy, and then pushes. If a
 * push exits, the token stays busy. The second delivery would find it busy and raise #GP, so root
 * mode clears the busy bit. If the processor can report "prematurely busy shadow stack", the exit
 * reason tells whether the bit has to be cleared. Otherwise, the address of the push tells it: the
 * bit has to be cleared if the push is right below a busy token, and not at the top of the guest's
 * current stack. (This misjudges a stack that is full to its last word and lies next to the other
 * stack's token. It does not detect a far CALL from CPL 1 or 2.) SDM Vol. 3, "Shadow-Stack
 * Updates"; "Information for VM Exits That Occur During Event Delivery"; "VM-Entry Controls for
 * Event Injection"; "Stack Switching with Stack-Segment Switching in 64-Bit Mode".
 */
#include "experiments/memory/hypervisor/memory_event.h"
#include "experiments/memory/hypervisor/memory_record.h"

#define FRAME_WORDS 5 /* SS, RSP, RFLAGS, CS, RIP, without an error code */
#define WORD 8
#define SHADOW_WORDS 3 /* CS, LIP, SSP */

static void free_shadow_stack(struct cpu *cpu, uint64_t push)
{
    for (uint64_t at = push + WORD; at <= push + SHADOW_WORDS * WORD; at += WORD) {
        uint64_t physical, busy = at | SHADOW_STACK_TOKEN_BUSY;
        uint64_t *token = at % WORD == 0 && memory_translate(cpu, at, &physical, NULL)
                              ? memory_find_guest(cpu, physical)
                              : NULL;

        if (token != NULL && __atomic_compare_exchange_n(token, &busy, at, false, __ATOMIC_SEQ_CST,
                                                         __ATOMIC_RELAXED))
            return;
    }
}

/* Returns whether the delivery switched to another shadow stack. Without a switch, the pushes go to
 * the words below the guest's SSP. */
static bool has_switched(uint64_t push)
{
    uint64_t last = (SHADOW_WORDS - 1) * WORD;

    return vmcs_read_natural(VMCS_GUEST_CR4) & CR4_CET &&
           (vmcs_read_natural(VMCS_GUEST_SSP) & ~(WORD - 1ULL)) - WORD - push > last;
}

/* Leaves the stack busy if the exit is for an exception: natively, a page fault in a push leaves
 * the stack busy, too. */
uint64_t memory_handle_busy_exit(struct cpu *cpu, uint64_t reason)
{
    uint64_t basic = reason & ~EXIT_REASON_PREMATURELY_BUSY;

    if (basic >= EXIT_REASON_COUNT)
        return EXIT_REASON_COUNT;
    if (basic != EXIT_REASON_EXCEPTION_OR_NMI)
        free_shadow_stack(cpu, vmcs_read_natural(VMCS_GUEST_LINEAR_ADDRESS));
    return basic;
}

void memory_deliver_event_again(struct cpu *cpu, uint32_t vectoring)
{
    if (!memory_of(cpu)->tells_busy) {
        uint64_t push = vmcs_read_natural(VMCS_GUEST_LINEAR_ADDRESS);
        if (has_switched(push))
            free_shadow_stack(cpu, push);
    }
    deliver_event_again(cpu, vectoring);
}

static void record_piece(struct cpu *cpu, uint64_t at, uint32_t bytes)
{
    const struct cpu_memory *m = memory_of(cpu);
    uint64_t gpa = (m->event_gpa & ~(PAGE_SIZE - 1)) | at % PAGE_SIZE;

    if ((at ^ m->event_gla) / PAGE_SIZE != 0 && !memory_translate(cpu, at, &gpa, NULL))
        return; /* not reached: the frame was just written here */
    if (memory_find_guest(cpu, gpa) == NULL || !memory_is_traced(cpu, at, gpa))
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

    /* No frame is recorded in two modes. MEMTRACE_READS: the delivery only writes the frame.
     * MEMTRACE_DEVICES: to get the frame's value, root mode would have to read from a device. */
    if (memory_of(cpu)->mode == MEMTRACE_READS || memory_of(cpu)->mode == MEMTRACE_DEVICES)
        return;
    if (memory_of(cpu)->event & INTERRUPTION_ERROR_CODE)
        bytes += WORD;
    if (!(vmcs_read_64(VMCS_GUEST_IA32_EFER) & EFER_LMA)) {
        const struct cpu_memory *m = memory_of(cpu);

        memory_record_begin(cpu, TRACE_WRITE | TRACE_EVENT | TRACE_INEXACT, m->event_gla,
                            m->event_gpa)
            ->detail = m->event & (uint32_t)BITS(11, 0);
        memory_record_publish(cpu);
        return;
    }
    /* The processor pushes downwards, so it pushed the part in the higher page first. */
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

/* If there is no vectoring information, this exit came after the delivery. */
static void event_other(struct cpu *cpu)
{
    memory_end_step(cpu);
    if (!(vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID))
        record_frame(cpu);
    trace_of(cpu)->under[memory_exit_reason(cpu)](cpu);
}

static void event_exception(struct cpu *cpu)
{
    uint32_t information = vmcs_read_32(VMCS_EXIT_INTERRUPTION_INFORMATION);

    if (interruption_type(information) == INTERRUPTION_TYPE_NMI ||
        memory_always_exits(cpu, information)) {
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
    memory_deliver_event_again(cpu, vectoring);
    memory_begin_step(cpu, memory_of(cpu)->open, event_row);
}
