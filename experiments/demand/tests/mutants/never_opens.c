/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A policy=demand that takes no write for one that turns a counter on: accesses must be seen to exit
 * while the guest profiles.
 */
#include "experiments/demand/hypervisor/demand.h"

typedef const struct cpu *processor; /* short, because a __wrap_ stands on one line */

bool __wrap_demand_turns_on(processor cpu, uint32_t index, uint64_t value);

bool __wrap_demand_turns_on(UNUSED processor cpu, UNUSED uint32_t index, UNUSED uint64_t value)
{
    return false;
}
