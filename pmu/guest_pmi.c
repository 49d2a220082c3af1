/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A PMI of the guest's that reaches root mode. Rules of NMI context (nmi/nmi.c) hold here.
 * SDM Vol. 3, "Performance Monitoring"; "Local Vector Table".
 */
#include "../apic/apic.h"
#include "pmu.h"

bool pmu_pmi_raised(const struct cpu *cpu)
{
    return cpu->boot->options.pmu && apic_lvtpc_read() & LVT_MASKED &&
           rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_PMI;
}
