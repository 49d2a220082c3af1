/* SPDX-License-Identifier: BSD-2-Clause
 *
 * RDMSR and WRMSR of the PMU's registers, and RDPMC: the thesis's Table 4.1. EVTSEL and CTRL are
 * written 0, as there. SDM Vol. 3, "Architectural Performance Monitoring".
 */
#include "internal.h"

#define NAME "msr"
#define BASE "empty"

static const struct {
    const char *name;
    loop_function function;
    uint32_t index; /* ECX */
} items[] = {
    {"rdmsr_evtsel", loop_rdmsr, MSR_PERFEVTSEL0},
    {"wrmsr_evtsel", loop_wrmsr, MSR_PERFEVTSEL0},
    {"rdmsr_pmc", loop_rdmsr, MSR_A_PMC0},
    {"wrmsr_pmc", loop_wrmsr, MSR_A_PMC0},
    {"rdmsr_ctrl", loop_rdmsr, MSR_GLOBAL_CTRL},
    {"wrmsr_ctrl", loop_wrmsr, MSR_GLOBAL_CTRL},
    {"rdmsr_status", loop_rdmsr, MSR_GLOBAL_STATUS},
    {"rdpmc", loop_rdpmc, 0},
};
#define ITEMS (sizeof(items) / sizeof(items[0]))

void measure_msr(void)
{
    const struct item empty = {NAME, "empty", NULL, REGION_MSR_FIRST};
    struct loop registers = {.rax = 0};
    const struct pmu *pmu = pmu_found();

    item_loop(&empty, loop_empty, &registers);
    for (unsigned i = 0; i < ITEMS; i++) {
        const struct item item = {NAME, items[i].name, BASE, REGION_MSR_FIRST + 1 + i};
        registers.rcx = items[i].index;
        if (pmu->why_not != NULL)
            item_skip(&item, pmu->why_not);
        else if (items[i].index == MSR_A_PMC0 && !pmu->full_width)
            item_skip(&item, "no full-width counter writes: IA32_A_PMC0 does not exist");
        else
            item_loop(&item, items[i].function, &registers);
    }
}
