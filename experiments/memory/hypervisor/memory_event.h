/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Events whose delivery accesses closed pages, and the shadow stacks that such an exit leaves busy.
 */
#pragma once

#include "experiments/memory/hypervisor/state.h"

/* Delivers an event again under the open map after its delivery violated the closed
 * map, and records the event's frame. */
void memory_event(struct cpu *cpu, uint32_t vectoring, uint64_t gla, uint64_t gpa);
void memory_event_setup(void); /* call at least once */
/* Delivers again the event whose delivery this exit interrupted. Does what deliver_event_again()
 * does, and also frees a shadow stack that the delivery had switched to. */
void memory_deliver_event_again(struct cpu *cpu, uint32_t vectoring);
/* Handles an exit reason past the end of the table of handlers. If the exit left a shadow stack
 * busy, returns the basic reason and, unless the exit is for an exception, frees the shadow stack.
 * Returns EXIT_REASON_COUNT for any other reason past the table. */
uint64_t memory_handle_busy_exit(struct cpu *cpu, uint64_t reason);
/* Like exit_reason(), but calls memory_handle_busy_exit() for reasons past the table. */
static inline uint64_t memory_exit_reason(struct cpu *cpu)
{
    uint64_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    if (__builtin_expect(reason >= EXIT_REASON_COUNT, 0))
        return memory_handle_busy_exit(cpu, reason);
    return reason;
}
