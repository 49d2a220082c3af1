/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The fast path handles the two exits of a traced write: the violation, and the end of the write's
 * step. Nearly all exits of the trace are of these two kinds, so each instruction counts here.
 * These functions call no other function. They do not check whether VMREAD and VMWRITE succeed,
 * because the same fields have been accessed before. If anything is unusual, they do nothing, and
 * memory_violation.c handles the exit. memory_violation.c can do everything that the fast path
 * does, and the rest.
 */
#include "experiments/memory/hypervisor/memory_event.h"
#include "experiments/memory/hypervisor/memory_record.h"

#define REP_MASK 0xfe /* finds REPNE (F2) and REP (F3) */
#define REP 0xf2
#define ESCAPE 0x0f
#define XSTATE_ALIGNMENT 8 /* the first byte that the XSAVE family writes is aligned to this */
#define END_OF_PAGE 16

static inline uint64_t read_field(uint32_t encoding)
{
    uint64_t value;
    __asm__ volatile("vmread %1, %0" : "=r"(value) : "r"((uint64_t)encoding) : "cc");
    return value;
}

static inline void write_field(uint32_t encoding, uint64_t value)
{
    __asm__ volatile("vmwrite %1, %0" : : "r"((uint64_t)encoding), "r"(value) : "cc", "memory");
}

/* Returns whether the first or the second byte of the code is 0F. Hardly any write has such code.
 * The assembly compares the second byte in place, in a register. A compiler would emit a copy and a
 * shift for this comparison. */
static inline bool has_escape(uint64_t code)
{
    bool second;

    __asm__("cmpb %2, %h1" : "=@cce"(second) : "Q"(code), "i"(ESCAPE));
    return __builtin_expect(second || (uint8_t)code == ESCAPE, 0);
}

/* Begins the step of a write that needs nothing from memory_violation.c: a write to a page where
 * the closed map denies only writes. Such a page is memory, and lies in the range. Returns false
 * for any other exit, and then has changed nothing except the place of the next record in the ring,
 * which no reader reads yet. */
static inline bool begin_write_step(struct cpu *cpu)
{
    struct cpu_memory *m = memory_of(cpu);
    struct trace_memory *record = (struct trace_memory *)trace_of(cpu)->record;

    if (!memory_is_plain_write(read_field(VMCS_EXIT_QUALIFICATION)) ||
        read_field(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID ||
        read_field(VMCS_GUEST_RFLAGS) & RFLAGS_TF)
        return false;
    uint64_t gpa = read_field(VMCS_GUEST_PHYSICAL_ADDRESS);
    if (gpa % PAGE_SIZE > PAGE_SIZE - END_OF_PAGE)
        return false;
    record->gpa = gpa;
    uint64_t rip = read_field(VMCS_GUEST_RIP), cr3 = read_field(VMCS_GUEST_CR3);
    const struct code_page *page = memory_code_slot(cpu, cr3, rip);
    memory_record_place_of(record, rip, cr3, TRACE_WRITE);
    if (!memory_is_code_known(page, cr3, rip & ~(PAGE_SIZE - 1)) ||
        rip % PAGE_SIZE > PAGE_SIZE - END_OF_PAGE)
        return false;
    const uint64_t *code = (const uint64_t *)(page->bytes + rip % PAGE_SIZE);
    if ((code[0] & REP_MASK) == REP ||
        (has_escape(code[0]) && gpa % XSTATE_ALIGNMENT == 0 && memory_is_xstate(code[0])))
        return false;
    memory_record_code(record, code[0], code[1], CODE_BYTES);
    record->gla = read_field(VMCS_GUEST_LINEAR_ADDRESS);
    memory_record_time(record, true);
    write_field(VMCS_EPT_POINTER, m->open);
    write_field(VMCS_PRIMARY_CONTROLS, m->stepping);
    write_field(VMCS_EXCEPTION_BITMAP, m->step_exceptions);
    write_field(VMCS_GUEST_INTERRUPTIBILITY_STATE,
                (cpu->blocking & ~(uint32_t)BLOCKING_BY_STI) | BLOCKING_BY_MOV_SS);
    m->stage = STAGE_STEPPED;
    return true;
}

static inline void end_write_step(struct cpu *cpu)
{
    struct cpu_trace *trace = trace_of(cpu);
    struct cpu_memory *m = memory_of(cpu);
    struct trace_memory *record = (struct trace_memory *)trace->record;
    const uint64_t *from = memory_host_address(record->gpa);

    record->value0 = from[0];
    record->value1 = from[1];
    write_field(VMCS_EPT_POINTER, m->closed);
    write_field(VMCS_PRIMARY_CONTROLS, m->primary);
    write_field(VMCS_EXCEPTION_BITMAP, m->exceptions);
    m->stage = STAGE_CLOSED;
    trace->record = (struct trace_record *)(record + 1);
    if (__builtin_expect(trace->record == trace->end, 0))
        trace->record = trace->first;
    /* Store the count after the record. Stores become visible in order, so a reader that sees the
     * count sees the record, too. */
    __asm__ volatile("addq %1, %0"
                     : "+m"(trace->ring->written)
                     : "i"(TRACE_MEMORY_FRAMES)
                     : "cc", "memory");
}

/* The fast path is not for a processor whose NMIs are trapped, because the controls of such a
 * processor change from exit to exit. Nor is it for traces that need more checks than
 * begin_write_step() makes. */
void memory_exit_setup(struct cpu *cpu)
{
    struct cpu_memory *m = memory_of(cpu);

    m->primary = vmcs_read_32(VMCS_PRIMARY_CONTROLS);
    m->stepping = m->primary | PRIMARY_MONITOR_TRAP_FLAG;
    m->exceptions = vmcs_read_32(VMCS_EXCEPTION_BITMAP);
    m->step_exceptions = m->exceptions | STEP_EXCEPTIONS;
    m->plain = m->mode == MEMTRACE_WRITES && m->cr3 == 0 && m->ends == ~0ULL &&
               m->counter != TRACE_COUNTER_NONE && !memory_options.exits && cpu->nmi.passthrough &&
               !(m->primary & PRIMARY_MONITOR_TRAP_FLAG);
    m->stage = m->plain ? STAGE_CLOSED : STAGE_WHOLE;
}

void memory_exit_other(struct cpu *cpu)
{
    struct cpu_memory *m = memory_of(cpu);

    if (m->stage == STAGE_STEPPED) { /* set what begin_write_step() left out */
        m->row = memory_step_row;
        m->begun = 1;
        m->stage = STAGE_WHOLE;
    }
    m->row[memory_exit_reason(cpu)](cpu);
    /* Outside a step, the handler may have changed the controls, so read them again. */
    if (m->row == trace_of(cpu)->under)
        memory_exit_setup(cpu);
}

void memory_exit_write(struct cpu *cpu)
{
    if (memory_of(cpu)->stage != STAGE_CLOSED || !begin_write_step(cpu))
        memory_exit_other(cpu);
}

void memory_exit_trap(struct cpu *cpu)
{
    if (__builtin_expect(memory_of(cpu)->stage == STAGE_STEPPED, 1))
        end_write_step(cpu);
    else
        memory_exit_other(cpu);
}
