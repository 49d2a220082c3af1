/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory trace as the guest finds it: HYPERCALL_MEMTRACE, and the records of a piece of work
 * (memory.c). trace_ring.h has the layout.
 */
#pragma once

#include "kernel.h"

#include "trace_ring.h"

#define MEMORY_PAGES 16
#define MEMORY_PAGE 4096
/* What is traced here: whole pages, of one processor's tests. */
extern uint8_t memory_area[MEMORY_PAGES * MEMORY_PAGE] __attribute__((aligned(MEMORY_PAGE)));

/* Two pages of it, one behind the other, with these bits in their entries: another linear address
 * of theirs, until it is closed. test_memory_event.c. */
#define WINDOW_ENTRY 1 /* of the PML4 */
#define WINDOW_AT (WINDOW_ENTRY * BIT(39))
#define WINDOW_FULL (PTE_P | PTE_RW | PTE_A)
#define WINDOW_PAGE 6 /* of the area, and the next one */
void memory_window(uint64_t first, uint64_t second);
void memory_window_close(void);

/* Asks for this processor's ring. False, and the test is skipped: no hypervisor that offers it. */
bool memory_offered(const struct job *job);
extern const volatile struct trace_ring *memory_ring;
/* HYPERCALL_MEMTRACE; its result. */
int64_t memory_trace(uint64_t mode, uint64_t first, uint64_t bytes, uint64_t cr3);
/* This many bytes of an object of this kernel's, by their physical address. */
int64_t memory_trace_physical(uint64_t mode, const void *object, uint64_t bytes);
/* Record number n, which must still be there; and how many there are. */
struct trace_memory memory_record(uint64_t n);
uint64_t memory_records(void);

/* What a record has to say. What is 0 in `bytes` is left to the reader's decoder. */
struct memory_wanted {
    const volatile void *at;
    uint8_t flags;
    uint32_t bytes;
    uint64_t value, value_mask;
};
/* Records from `first` on are these, in their order, and no more. False, and lines say why. */
bool memory_expect(const char *what, uint64_t first, const struct memory_wanted *wanted,
                   unsigned count);
