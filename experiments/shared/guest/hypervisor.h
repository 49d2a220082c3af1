/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hypervisor.h: what flowtrace and memtrace ask of PMUvisor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether CPUID names PMUvisor. */
bool pmuvisor_there(void);

/* Lets the calling thread run on one processor alone. */
bool run_on(int processor);

/* Turns the processor that this thread is pinned to to a level, or asks with TRACE_ASK. Gives the
 * level that it had, or a negative HYPERCALL_E_*; where its ring is, and how long. Only under
 * PMUvisor. */
int64_t hypercall_trace(uint64_t level, uint64_t *ring, uint64_t *bytes);

/* What a negative result means, and what to do. */
const char *hypercall_error(int64_t result);

/* The same for memory accesses: HYPERCALL_MEMTRACE, its words as hypercall.h has them. */
struct memory_request {
    uint64_t mode; /* MEMTRACE_*, or TRACE_ASK */
    uint64_t first, bytes;
    uint64_t cr3; /* 0: physical addresses; TRACE_THIS_CR3 */
};
int64_t hypercall_memory(const struct memory_request *request, uint64_t *ring, uint64_t *bytes);
const char *memory_error(int64_t result);
