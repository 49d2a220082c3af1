/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The exits of a write and of its step, as nearly all of them are: two at a traced write, so this is
 * where each instruction counts. Nothing is called, so there are no registers to keep, and VMREAD and
 * VMWRITE are not checked: the fields have been accessed before. What is in any way else is left, with
 * nothing done, to the functions of memory_step.c, which do the same and the rest of it.
 */
#include "trace/memory_record.h"

#include "nmi/nmi.h"

#define REP_MASK 0xfe /* REPNE and REP */
#define REP 0xf2
#define XSTATE_ALIGNMENT 64 /* SDM Vol. 2, "XSAVE" */
#define END_OF_PAGE 16

static inline uint64_t field(uint32_t encoding)
{
    uint64_t value;
    __asm__ volatile("vmread %1, %0" : "=r"(value) : "r"((uint64_t)encoding) : "cc");
    return value;
}

static inline void set_field(uint32_t encoding, uint64_t value)
{
    __asm__ volatile("vmwrite %1, %0" : : "r"((uint64_t)encoding), "r"(value) : "cc", "memory");
}

/* A TSC or counter as the processor gives it: two halves, which nothing puts together. */
static inline void store_halves(uint64_t *to, uint32_t low, uint32_t high)
{
    ((uint32_t *)to)[0] = low;
    ((uint32_t *)to)[1] = high;
}

static inline void store_tsc(uint64_t *to)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    store_halves(to, low, high);
}

static inline void store_counter(uint64_t *to)
{
    uint32_t low, high;
    __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(IA32_FIXED_CTR0));
    store_halves(to, low, high);
}

#define BYTE(frame, n) (((uint8_t *)(frame))[n])
#define HALF(frame, n) (((uint16_t *)(frame))[(n) / 2])
#define REASON 22 /* in a frame, and behind it its flags or number */

/* False: something of what memory_step.c has to see to is there. Each field is stored as it is read,
 * so that no register has to be kept; nobody sees a record that is not counted. */
static inline bool begin(struct cpu *cpu)
{
    struct cpu_memory *m = &cpu->memory;
    const uint64_t kind =
        EPT_VIOLATION_TRANSLATED | EPT_VIOLATION_WRITE | EPT_VIOLATION_NMI_UNBLOCKING;
    struct trace_memory *record = (struct trace_memory *)cpu->trace.record;
    uint64_t *word = (uint64_t *)record;
    uint64_t qualification = field(VMCS_EXIT_QUALIFICATION);

    if ((qualification & kind) != (EPT_VIOLATION_TRANSLATED | EPT_VIOLATION_WRITE) ||
        field(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID ||
        field(VMCS_GUEST_RFLAGS) & RFLAGS_TF)
        return false;
    uint64_t cr3 = word[2] = field(VMCS_GUEST_CR3); /* its highest bytes are written anew */
    HALF(record, REASON) = TRACE_REASON_MEMORY;
    BYTE(record, REASON + 1) = (uint8_t)(qualification & m->recorded);

    uint64_t rip = record->rip = field(VMCS_GUEST_RIP), offset = rip % PAGE_SIZE;
    const struct code_page *page = memory_code_slot(cpu, cr3, rip);
    if (!memory_code_known(page, cr3, rip - offset) || offset > PAGE_SIZE - END_OF_PAGE)
        return false;
    const uint64_t *from = (const uint64_t *)(page->bytes + offset);
    uint64_t code = word[8] = from[0];
    word[9] = from[1];
    record->code_bytes = CODE_BYTES;

    uint64_t gpa = record->gpa = field(VMCS_GUEST_PHYSICAL_ADDRESS);
    if (gpa - m->first >= m->bytes || (code & REP_MASK) == REP ||
        gpa % PAGE_SIZE > PAGE_SIZE - END_OF_PAGE ||
        (gpa % XSTATE_ALIGNMENT == 0 && memory_is_xstate(code)))
        return false;
    record->gla = field(VMCS_GUEST_LINEAR_ADDRESS);
    word[3] = 0;
    store_tsc(&record->tsc);
    if (m->counter != TRACE_COUNTER_NONE)
        store_counter(&word[6]);
    else
        word[6] = 0;
    HALF(&word[4], REASON) = TRACE_REASON_MORE | 1 << 8;
    word[10] = (uint64_t)(TRACE_REASON_MORE | 2 << 8) << 48;

    set_field(VMCS_EPT_POINTER, m->open);
    set_field(VMCS_PRIMARY_CONTROLS, m->primary | PRIMARY_MONITOR_TRAP_FLAG);
    set_field(VMCS_EXCEPTION_BITMAP, STEP_EXCEPTIONS);
    set_field(VMCS_GUEST_INTERRUPTIBILITY_STATE,
              (cpu->blocking & ~(uint32_t)BLOCKING_BY_STI) | BLOCKING_BY_MOV_SS);
    m->stage = STAGE_STEPPED;
    return true;
}

static inline void end(struct cpu *cpu)
{
    struct cpu_memory *m = &cpu->memory;
    struct cpu_trace *trace = &cpu->trace;
    struct trace_memory *record = (struct trace_memory *)trace->record;
    const uint64_t *from = memory_at(record->gpa);

    set_field(VMCS_EPT_POINTER, m->closed);
    set_field(VMCS_PRIMARY_CONTROLS, m->primary);
    set_field(VMCS_EXCEPTION_BITMAP, 0);
    m->stage = STAGE_CLOSED;
    record->value0 = from[0];
    record->value1 = from[1];
    trace->record += TRACE_MEMORY_FRAMES;
    if (__builtin_expect(trace->record == trace->end, 0))
        trace->record = trace->first;
    /* Behind the record: stores are seen in order. */
    __asm__ volatile("addq %1, %0"
                     : "+m"(trace->ring->written) : "i"(TRACE_MEMORY_FRAMES) : "cc", "memory");
}

static void exit_whole(struct cpu *cpu)
{
    struct cpu_memory *m = &cpu->memory;
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    if (nmi_after_exit(cpu))
        exit_nmi_work(cpu);
    /* What begin() has left out. */
    if (m->stage == STAGE_STEPPED) {
        m->stage = STAGE_WHOLE;
        m->row = memory_step_row;
        m->begun = 1;
    }
    if (reason >= EXIT_REASON_COUNT)
        reason = EXIT_REASON_COUNT;
    cpu->exits[reason]++;
    m->row[reason](cpu);
}

exit_handler memory_exit(struct cpu *cpu)
{
    cpu->blocking = (uint32_t)field(VMCS_GUEST_INTERRUPTIBILITY_STATE);
    if (__builtin_expect(nmi_after_exit(cpu), 0))
        return exit_whole;
    uint32_t reason = (uint32_t)field(VMCS_EXIT_REASON);
    if (reason == EXIT_REASON_MONITOR_TRAP_FLAG && cpu->memory.stage == STAGE_STEPPED) {
        end(cpu);
        cpu->exits[EXIT_REASON_MONITOR_TRAP_FLAG]++;
        return NULL;
    }
    if (reason == EXIT_REASON_EPT_VIOLATION && cpu->memory.stage == STAGE_CLOSED && begin(cpu)) {
        cpu->exits[EXIT_REASON_EPT_VIOLATION]++;
        return NULL;
    }
    return exit_whole;
}
