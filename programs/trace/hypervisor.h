/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hypervisor.h: what flowtrace asks of PMUvisor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether CPUID names PMUvisor. */
bool pmuvisor_there(void);

/* Turns the processor that this thread is pinned to to a level, or asks with TRACE_ASK. Gives the
 * level that it had, or a negative HYPERCALL_E_*; where its ring is, and how long. Only under
 * PMUvisor. */
int64_t hypercall_trace(uint64_t level, uint64_t *ring, uint64_t *bytes);

/* What a negative result means, and what to do. */
const char *hypercall_error(int64_t result);
