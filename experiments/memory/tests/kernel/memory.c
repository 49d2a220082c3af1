/* SPDX-License-Identifier: BSD-2-Clause
 *
 * This processor's ring of memory records, and whether they are what a piece of work has done.
 */
#include "memory.h"

#include "fuzz.h"
#include "host.h"
#include "hypercall.h"
#include "x86.h"

#define PAGE_MASK (MEMORY_PAGE - 1ULL)

uint8_t memory_area[MEMORY_PAGES * MEMORY_PAGE] __attribute__((aligned(MEMORY_PAGE)));
const volatile struct trace_ring *memory_ring;

int64_t memory_trace(uint64_t mode, uint64_t first, uint64_t bytes, uint64_t cr3)
{
    /* RAX RBX RCX RDX RSI */
    uint64_t registers[HYPERCALL_REGISTERS] = {HYPERCALL_MEMTRACE, mode, first, bytes, cr3};

    hypercall_whole(registers);
    if ((int64_t)registers[0] >= 0)
        memory_ring = (const volatile void *)registers[1];
    return (int64_t)registers[0];
}

int64_t memory_trace_physical(uint64_t mode, const void *object, uint64_t bytes)
{
    return memory_trace(mode, fuzz_physical(object), bytes, 0);
}

bool memory_offered(const struct job *job)
{
    return hypervisor_offers(job, HYPERCALL_MEMTRACE) && memory_trace(TRACE_ASK, 0, 0, 0) >= 0;
}

uint64_t memory_records(void) { return memory_ring->written / TRACE_MEMORY_FRAMES; }

struct trace_memory memory_record(uint64_t n)
{
    const volatile struct trace_memory *records = (const volatile void *)((const volatile char *)
                                                                              memory_ring +
                                                                          TRACE_RING_HEADER_BYTES);

    return records[n % (memory_ring->capacity / TRACE_MEMORY_FRAMES)];
}

static bool is_wanted(const struct trace_memory *r, const struct memory_wanted *w)
{
    return r->reason == TRACE_REASON_MEMORY && r->reason1 == TRACE_REASON_MORE && r->index1 == 1 &&
           r->reason2 == TRACE_REASON_MORE && r->index2 == 2 && r->gla == (uint64_t)w->at &&
           (r->gpa & PAGE_MASK) == (r->gla & PAGE_MASK) && r->flags == w->flags &&
           r->bytes == w->bytes && r->cr3 == (read_cr3() & BITS(47, 0)) &&
           ((r->value0 ^ w->value) & w->value_mask) == 0;
}

bool memory_expect(const char *what, uint64_t first, const struct memory_wanted *wanted,
                   unsigned count)
{
    uint64_t found = memory_records() - first;
    bool good = found == count;

    if (!good)
        tap_note("%s: %lu records, wanted %u", what, found, count);
    for (unsigned i = 0; i < found && i < count + 2; i++) {
        struct trace_memory r = memory_record(first + i);

        if (i < count && is_wanted(&r, &wanted[i]))
            continue;
        good = false;
        tap_note("%s %u: RIP 0x%lx %u bytes of code 0x%lx, GLA 0x%lx GPA 0x%lx flags 0x%x detail "
                 "0x%x",
                 what, i, r.rip, r.code_bytes, *(const uint64_t *)r.code, r.gla, r.gpa,
                 (unsigned)r.flags, r.detail);
        tap_note("%s %u: %u bytes, value 0x%lx 0x%lx", what, i, r.bytes, r.value0, r.value1);
        if (i < count)
            tap_note("%s %u: wanted 0x%lx flags 0x%x, %u bytes, value 0x%lx", what, i,
                     (uint64_t)wanted[i].at, wanted[i].flags, wanted[i].bytes, wanted[i].value);
    }
    return good;
}
