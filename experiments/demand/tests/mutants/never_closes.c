/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A policy=demand that always finds something counting: accesses must be seen to pass after the
 * profile.
 */
#include "experiments/demand/hypervisor/demand.h"

bool __wrap_demand_is_counting(const struct cpu *cpu, const struct pmu_facts *facts);

bool __wrap_demand_is_counting(UNUSED const struct cpu *cpu, UNUSED const struct pmu_facts *facts)
{
    return true;
}
