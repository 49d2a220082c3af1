/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that knows a PMI of the guest's by the counters' status bits alone: one of the PEBS
 * buffer, the uncore or BTS that merges with a host NMI must be seen to get lost.
 */
#include "apic/apic.h"
#include "pmu/pmu.h"

bool __wrap_pmu_pmi_raised(const struct cpu *cpu)
{
    return cpu->boot->options.pmu && apic_lvtpc_read() & LVT_MASKED &&
           rdmsr(IA32_PERF_GLOBAL_STATUS) & BITS(54, 0);
}
