/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that takes the PMU of the processor that it sets up first for the PMU of all: on a
 * hybrid machine, a processor of another kind must be seen to lose registers, and bits of
 * GLOBAL_CTRL.
 */
#include "pmu/pmu.h"

struct pmu_facts __real_pmu_read_facts(void);
void __real_pmu_setup(struct cpu *cpu);

struct pmu_facts __wrap_pmu_read_facts(void)
{
    static struct pmu_facts first;

    if (first.version == 0)
        first = __real_pmu_read_facts();
    return first;
}

void __wrap_pmu_setup(struct cpu *cpu)
{
    static uint64_t first;

    __real_pmu_setup(cpu);
    if (first == 0)
        first = cpu->pmu.global_ctrl_valid;
    cpu->pmu.global_ctrl_valid = first;
}
