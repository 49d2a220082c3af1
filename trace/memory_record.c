/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The record of a memory access: begun at the violation, finished where the instruction has retired
 * and memory has the new value. Until then no reader sees it, and it may be dropped.
 */
#include "trace/memory.h"

#include "mm/guest_walk.h"

#define CODE_BYTES 15 /* SDM Vol. 2, "Instruction Format": no instruction has more */

static struct trace_memory *place(const struct cpu *cpu, unsigned n)
{
    struct trace_record *at = cpu->trace.record + (uint64_t)n * TRACE_MEMORY_FRAMES;
    uint64_t capacity = (uint64_t)(cpu->trace.end - cpu->trace.first);

    return (struct trace_memory *)(at < cpu->trace.end ? at : at - capacity);
}

/* ---- where the guest's addresses lie. What is not the guest's memory is not read for it: the
 * ring, which the guest can read, must never tell what root mode has. ---- */

struct tables {
    const struct cpu *cpu;
    uint64_t last; /* address of the entry that was read last */
};

static const void *table_entry(void *context, uint64_t address)
{
    struct tables *tables = context;

    tables->last = address;
    return memory_of_guest(tables->cpu, address);
}

bool memory_translate(struct cpu *cpu, uint64_t linear, uint64_t *physical, uint64_t *entry)
{
    struct tables tables = {.cpu = cpu};
    unsigned levels = vmcs_read_natural(VMCS_GUEST_CR4) & CR4_LA57 ? TABLE_LEVELS + 1 : TABLE_LEVELS;

    if (!(vmcs_read_64(VMCS_GUEST_IA32_EFER) & EFER_LMA) ||
        !guest_walk(vmcs_read_natural(VMCS_GUEST_CR3), levels, linear, table_entry, &tables,
                    physical))
        return false;
    if (entry != NULL)
        *entry = tables.last;
    return true;
}

/* ---- the code ---- */

static __attribute__((noinline)) bool find_code(struct cpu *cpu, uint64_t cr3, uint64_t linear,
                                                struct code_page *page)
{
    uint64_t physical, entry;

    page->linear = 1; /* no page's */
    if (!memory_translate(cpu, linear, &physical, &entry))
        return false;
    page->bytes = memory_of_guest(cpu, physical);
    if (page->bytes == NULL)
        return false;
    page->entry = memory_at(entry);
    page->value = *page->entry;
    page->cr3 = cr3;
    page->linear = linear;
    return true;
}

/* The page is looked for anew where the guest has changed the entry that maps it. */
static inline const struct code_page *code_page(struct cpu *cpu, uint64_t cr3, uint64_t linear)
{
    struct code_page *page = &cpu->memory.code[(linear ^ cr3) / PAGE_SIZE % CODE_PAGES];

    if (__builtin_expect(page->cr3 != cr3 || page->linear != linear, 0) ||
        __builtin_expect(*page->entry != page->value, 0))
        return find_code(cpu, cr3, linear, page) ? page : NULL;
    return page;
}

static __attribute__((noinline)) unsigned code_over_pages(struct cpu *cpu, uint64_t cr3,
                                                          uint64_t rip, uint8_t *code)
{
    unsigned count = 0;

    for (; count < CODE_BYTES; count++) {
        uint64_t at = rip + count;
        const struct code_page *page = code_page(cpu, cr3, at & ~(PAGE_SIZE - 1));

        if (page == NULL)
            break;
        code[count] = page->bytes[at % PAGE_SIZE];
    }
    return count;
}

unsigned memory_code(struct cpu *cpu, uint64_t cr3, uint64_t rip, uint64_t code[2])
{
    const struct code_page *page = code_page(cpu, cr3, rip & ~(PAGE_SIZE - 1));
    uint64_t offset = rip % PAGE_SIZE;

    code[0] = code[1] = 0;
    if (__builtin_expect(page == NULL, 0))
        return 0;
    if (__builtin_expect(offset > PAGE_SIZE - 2 * sizeof(*code), 0))
        return code_over_pages(cpu, cr3, rip, (uint8_t *)code);
    const uint64_t *from = (const uint64_t *)(page->bytes + offset);
    code[0] = from[0];
    code[1] = from[1] & BITS(55, 0);
    return CODE_BYTES;
}

/* ---- the record ---- */

struct trace_memory *memory_record_begin(struct cpu *cpu, uint32_t flags, uint64_t gla,
                                         uint64_t gpa)
{
    struct trace_memory *record = place(cpu, cpu->memory.begun++);
    uint64_t cr3 = vmcs_read_natural(VMCS_GUEST_CR3), rip = vmcs_read_natural(VMCS_GUEST_RIP);
    uint64_t code[2], *frames = (uint64_t *)record;

    frames[0] = rdtsc();
    frames[1] = rip;
    frames[2] = (cr3 & BITS(47, 0)) | (uint64_t)TRACE_REASON_MEMORY << 48 | (uint64_t)flags << 56;
    frames[3] = 0;
    frames[4] = gla;
    frames[5] = gpa;
    uint64_t retired = cpu->memory.counter != TRACE_COUNTER_NONE ? rdmsr(IA32_FIXED_CTR0) : 0;
    frames[6] = (retired & BITS(47, 0)) | (uint64_t)TRACE_REASON_MORE << 48 | 1ULL << 56;
    uint64_t count = memory_code(cpu, cr3, rip, code);
    frames[8] = code[0];
    frames[9] = code[1] | count << 56;
    frames[10] = (uint64_t)TRACE_REASON_MORE << 48 | 2ULL << 56;
    return record;
}

/* FXSAVE, FXRSTOR, XSAVE, XRSTOR and XSAVEOPT are 0F AE, and XRSTORS, XSAVEC and XSAVES 0F C7, both
 * behind a REX prefix or none; other instructions of these opcodes have one operand of a known
 * size, and the reader sees which it is. SDM Vol. 2, "Opcode Map". */
static inline bool is_xstate(const struct trace_memory *record)
{
    uint64_t code = *(const uint64_t *)record->code;

    if ((code & 0xf0) == 0x40)
        code >>= 8;
    return (code & 0xffff) == 0xae0f || (code & 0xffff) == 0xc70f;
}

/* What the area's header says behind the instruction. SDM Vol. 1, "XSAVE Header". */
#define XSTATE_BV 512
#define XCOMP_BV 520
static __attribute__((noinline)) void finish_xstate(struct cpu *cpu, struct trace_memory *record)
{
    const uint64_t *bv, *comp;

    record->flags |= TRACE_XSTATE;
    record->detail = (uint32_t)cpu->gpr[GPR_RAX];
    if (record->gpa % PAGE_SIZE > PAGE_SIZE - XCOMP_BV - sizeof(*comp))
        return; /* over the page's end: it may lie anywhere */
    bv = memory_at(record->gpa + XSTATE_BV);
    comp = memory_at(record->gpa + XCOMP_BV);
    record->xstate = (*bv & BITS(23, 0)) | (*comp & BITS(22, 0)) << 24 | (*comp >> 63) << 47;
}

static inline void finish(struct cpu *cpu, struct trace_memory *record)
{
    uint64_t left = PAGE_SIZE - record->gpa % PAGE_SIZE;
    const uint64_t *from = memory_at(record->gpa);

    if (__builtin_expect(left >= 2 * sizeof(*from), 1)) {
        record->value0 = from[0];
        record->value1 = from[1];
    } else {
        uint8_t value[16] = {0};

        for (uint64_t i = 0; i < left; i++)
            value[i] = ((const uint8_t *)from)[i];
        record->value0 = *(const uint64_t *)value;
        record->value1 = *(const uint64_t *)(value + 8);
    }
    if (__builtin_expect(is_xstate(record), 0))
        finish_xstate(cpu, record);
}

void memory_record_publish(struct cpu *cpu)
{
    struct cpu_trace *trace = &cpu->trace;
    unsigned begun = cpu->memory.begun;

    for (; begun > 0; begun--) {
        finish(cpu, (struct trace_memory *)trace->record);
        trace->record += TRACE_MEMORY_FRAMES;
        if (trace->record == trace->end)
            trace->record = trace->first;
        /* Behind the record: stores are seen in order. */
        __atomic_store_n(&trace->ring->written, trace->ring->written + TRACE_MEMORY_FRAMES,
                         __ATOMIC_RELEASE);
    }
    cpu->memory.begun = 0;
}
