/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The record of a memory access. A record is begun at the violation and finished when the
 * instruction has retired and memory has the new value. Until then no reader sees the record, and
 * it may be dropped. The code that every record needs is here, to be inlined. The rest is in
 * memory_record.c.
 */
#pragma once

#include "experiments/memory/hypervisor/state.h"

#define CODE_BYTES 15 /* SDM Vol. 2, "Instruction Format": the longest instruction */

/* Returns root mode's address of the memory that the guest reads at `linear`, with the guest's
 * tables and rights of this moment. The result is valid up to the page's end. Returns NULL if the
 * guest may not read the memory, or if only the processor can tell. */
const void *memory_find_readable(struct cpu *cpu, uint64_t linear);
/* Finds the page of code. Returns false if the page is not mapped, or is not in the guest's
 * memory. */
bool memory_find_code(struct cpu *cpu, uint64_t cr3, uint64_t linear, struct code_page *page);
/* Reads up to CODE_BYTES bytes of code that continues in another page. Returns the number of bytes
 * that it could read. */
unsigned memory_read_code_across_pages(struct cpu *cpu, uint64_t cr3, uint64_t rip, uint8_t *code);
/* Stores the value of an access to the last bytes of a page. */
void memory_finish_end_of_page(struct trace_memory *record);
void memory_finish_xstate(struct cpu *cpu, struct trace_memory *record);

/* Returns whether this is an instruction's write to a page where the closed map denies only
 * writes. */
static inline bool memory_is_plain_write(uint64_t qualification)
{
    const uint64_t always = EPT_VIOLATION_TRANSLATED | EPT_VIOLATION_WRITE;
    const uint64_t page = (EPT_READ | EPT_EXECUTE) << EPT_VIOLATION_PAGE_SHIFT;

    return (qualification & (always | EPT_VIOLATION_PAGE | EPT_VIOLATION_NMI_UNBLOCKING |
                             EPT_VIOLATION_ASYNCHRONOUS)) == (always | page);
}

static inline struct trace_memory *memory_record_place(const struct cpu *cpu, unsigned n)
{
    struct trace_record *at = trace_of(cpu)->record + (uint64_t)n * TRACE_MEMORY_FRAMES;
    uint64_t capacity = (uint64_t)(trace_of(cpu)->end - trace_of(cpu)->first);

    return (struct trace_memory *)(at < trace_of(cpu)->end ? at : at - capacity);
}

static inline struct code_page *memory_code_slot(struct cpu *cpu, uint64_t cr3, uint64_t linear)
{
    return &memory_of(cpu)->code[(linear ^ cr3) / PAGE_SIZE % CODE_PAGES];
}

/* Returns whether `page` is known to hold this code. Also returns false if the guest has changed
 * the entry that maps the page, because then memory_find_code() has to find the page again. */
static inline bool memory_is_code_known(const struct code_page *page, uint64_t cr3, uint64_t linear)
{
    return page->cr3 == cr3 && page->linear == linear && *page->entry == page->value;
}

static inline const struct code_page *memory_code_page(struct cpu *cpu, uint64_t cr3,
                                                       uint64_t linear)
{
    struct code_page *page = memory_code_slot(cpu, cr3, linear);

    if (!memory_is_code_known(page, cr3, linear) && !memory_find_code(cpu, cr3, linear, page))
        return NULL;
    return page;
}

/* Reads up to 15 bytes of code at RIP. Returns their number, which is 0 outside IA-32e mode. */
static inline unsigned memory_read_code(struct cpu *cpu, uint64_t cr3, uint64_t rip,
                                        uint64_t code[2])
{
    const struct code_page *page = memory_code_page(cpu, cr3, rip & ~(PAGE_SIZE - 1));
    uint64_t offset = rip % PAGE_SIZE;

    code[0] = code[1] = 0;
    if (__builtin_expect(page == NULL, 0))
        return 0;
    if (__builtin_expect(offset > PAGE_SIZE - 2 * sizeof(*code), 0))
        return memory_read_code_across_pages(cpu, cr3, rip, (uint8_t *)code);
    const uint64_t *from = (const uint64_t *)(page->bytes + offset);
    code[0] = from[0];
    code[1] = from[1] & BITS(55, 0);
    return CODE_BYTES;
}

/* These functions write the parts of a record. Bytes 22 and 23 of each frame say which frame it is.
 * They are the highest bytes of a word, and are written after that word. */
static inline void memory_record_mark(void *frame, uint32_t reason, uint32_t more)
{
    ((uint16_t *)frame)[11] = (uint16_t)(reason | more << 8);
}

static inline void memory_record_place_of(struct trace_memory *record, uint64_t rip, uint64_t cr3,
                                          uint32_t flags)
{
    uint64_t *frame = (uint64_t *)record;

    frame[1] = rip;
    frame[2] = cr3;
    memory_record_mark(frame, TRACE_REASON_MEMORY, flags);
    frame[3] = 0;
}

static inline void memory_record_code(struct trace_memory *record, uint64_t low, uint64_t high,
                                      unsigned bytes)
{
    uint64_t *frame = (uint64_t *)record + 8;

    frame[0] = low;
    frame[1] = high;
    record->code_bytes = (uint8_t)bytes;
    frame[2] = 0;
    memory_record_mark(frame, TRACE_REASON_MORE, 2);
}

static inline void memory_record_time(struct trace_memory *record, bool counts)
{
    uint32_t *half = (uint32_t *)record, low = 0, high = 0;

    __asm__ volatile("rdtsc" : "=a"(half[0]), "=d"(half[1]));
    if (counts)
        __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(IA32_FIXED_CTR0));
    half[12] = low;
    half[13] = (high & (uint32_t)(PMU_LENT_COUNT >> 32)) | (TRACE_REASON_MORE | 1u << 8) << 16;
}

/* Begins the access's record, at the next place in the ring. */
static inline struct trace_memory *memory_record_begin(struct cpu *cpu, uint32_t flags,
                                                       uint64_t gla, uint64_t gpa)
{
    struct trace_memory *record = memory_record_place(cpu, memory_of(cpu)->begun++);
    uint64_t cr3 = vmcs_read_natural(VMCS_GUEST_CR3), rip = vmcs_read_natural(VMCS_GUEST_RIP);
    uint64_t code[2];
    unsigned count = memory_read_code(cpu, cr3, rip, code);

    memory_record_place_of(record, rip, cr3, flags);
    memory_record_code(record, code[0], code[1], count);
    record->gla = gla;
    record->gpa = gpa;
    memory_record_time(record, memory_of(cpu)->counter != TRACE_COUNTER_NONE);
    return record;
}

/* FXSAVE, FXRSTOR, XSAVE, XRSTOR and XSAVEOPT are 0F AE. XRSTORS, XSAVEC and XSAVES are 0F C7. Both
 * may follow a REX prefix. Other instructions with these opcodes have one operand of a known size,
 * and the ring's reader sees which instruction it is. SDM Vol. 2, "Opcode Map". */
static inline bool memory_is_xstate(uint64_t code)
{
    if ((code & 0xf0) == 0x40)
        code >>= 8;
    return (code & 0xffff) == 0xae0f || (code & 0xffff) == 0xc70f;
}

static inline void memory_record_finish(struct cpu *cpu, struct trace_memory *record)
{
    const uint64_t *from = memory_host_address(record->gpa);

    if (__builtin_expect(record->gpa % PAGE_SIZE <= PAGE_SIZE - 2 * sizeof(*from), 1)) {
        record->value0 = from[0];
        record->value1 = from[1];
    } else {
        memory_finish_end_of_page(record);
    }
    if (__builtin_expect(memory_is_xstate(*(const uint64_t *)record->code), 0))
        memory_finish_xstate(cpu, record);
}

/* Publishes all records that were begun, because their accesses have happened. The records get the
 * values that memory holds now. Readers see the records from now on. */
static inline void memory_record_publish(struct cpu *cpu)
{
    struct cpu_trace *trace = trace_of(cpu);

    for (unsigned begun = memory_of(cpu)->begun; begun > 0; begun--) {
        struct trace_memory *record = (struct trace_memory *)trace->record;

        if (__builtin_expect(!(record->flags & TRACE_DEVICE), 1))
            memory_record_finish(cpu, record);
        trace->record += TRACE_MEMORY_FRAMES;
        if (__builtin_expect(trace->record == trace->end, 0))
            trace->record = trace->first;
        /* Store the count after the record. Stores become visible in order, so a reader that sees
         * the count sees the record, too. */
        __atomic_store_n(&trace->ring->written, trace->ring->written + TRACE_MEMORY_FRAMES,
                         __ATOMIC_RELEASE);
    }
    memory_of(cpu)->begun = 0;
}
