/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The trace of exits as the guest finds it: this processor's ring by HYPERCALL_TRACE, and the
 * records of a piece of work (trace.c). trace_ring.h has the layout.
 */
#pragma once

#include "kernel.h"

#include "trace_ring.h"

/* Asks for this processor's ring. False, and the test is skipped: no hypervisor that offers it. */
bool trace_begin(const struct job *job);
extern const volatile struct trace_ring *trace_ring;
/* HYPERCALL_TRACE with that level or TRACE_ASK; its result. */
int64_t trace_level(uint64_t level);
/* Record number n, which must still be there. */
struct trace_record trace_record(uint64_t n);

/* What a record has to say. */
struct trace_wanted {
    uint8_t reason, flags;
    uint32_t detail;
    uint64_t rip, cr3;
};
/* From here on records are judged: TSC now, and how many there are. */
void trace_mark(void);
/* The next record behind the mark, or behind the one that was judged last, is as wanted, within the
 * time from the mark to now. False, and one line says why. */
bool trace_next(const char *what, struct trace_wanted wanted);
/* No more records than were judged. */
bool trace_no_more(const char *what);
/* CR3 as a record has it. */
uint64_t trace_cr3(void);
/* `detail` of a stack pointer. */
static inline uint32_t trace_stack(uint64_t rsp)
{
    return (uint32_t)(rsp >> TRACE_STACK_SHIFT) << 8;
}

/* Regions of the ledger. */
enum trace_region {
    REGION_TRACE = 1701,
    REGION_TRACE_OFF,
    REGION_TRACE_SWEEP = 1710, /* + kind: exits without an NMI, just before a sweep-flow */
};
