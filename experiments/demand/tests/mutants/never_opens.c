/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A policy=demand that takes no write for one that turns a counter on: accesses must be seen to
 * exit while the guest profiles.
 */
#include "experiments/demand/hypervisor/demand.h"

bool __wrap_demand_enables_counter(const struct pmu_facts *facts, uint32_t index, uint64_t value);

bool __wrap_demand_enables_counter(UNUSED const struct pmu_facts *facts, UNUSED uint32_t index,
                                   UNUSED uint64_t value)
{
    return false;
}
