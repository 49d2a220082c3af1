/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that delivers an event again and leaves the shadow stack busy that the delivery had
 * switched to: the guest must be seen to shut down.
 */
#include "experiments/memory/hypervisor/memory_event.h"

uint64_t __wrap_memory_handle_busy_exit(struct cpu *cpu, uint64_t reason);
void __wrap_memory_deliver_event_again(struct cpu *cpu, uint32_t vectoring);

uint64_t __wrap_memory_handle_busy_exit(struct cpu *cpu, uint64_t reason)
{
    uint64_t basic = reason & ~EXIT_REASON_PREMATURELY_BUSY;

    (void)cpu;
    return basic < EXIT_REASON_COUNT ? basic : EXIT_REASON_COUNT;
}

void __wrap_memory_deliver_event_again(struct cpu *cpu, uint32_t vectoring)
{
    deliver_event_again(cpu, vectoring);
}
