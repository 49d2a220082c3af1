/* SPDX-License-Identifier: BSD-2-Clause
 *
 * RDMSR and WRMSR of the PMU's registers, and RDPMC: the thesis's Table 4.1. EVTSEL and CTRL are
 * written 0 over 0, as there, which a hypervisor may find to be no change at all; so there are two
 * items more, in which each write changes an event that is set up, as a profiler does. And a
 * branch record, of either kind, and a readout of them all. SDM Vol. 3, "Architectural Performance
 * Monitoring", "Last Branch Records".
 */
#include "internal.h"

#define NAME "msr"
#define BASE "empty"
#define NO_RECORDS "no branch records by IA32_PERF_CAPABILITIES and CPUID"
#define BASE_CHANGE "empty_change"
#define LEAF_1_ECX_PDCM (1u << 15)
#define LEAF_7_EDX_ARCH_LBR (1u << 19)
/* Counts nothing here, because all of this is CPL 0. */
#define USER_BRANCHES (EVENT_BRANCHES | EVENTSEL_USR)

static const struct {
    const char *name;
    loop_function function;
    uint32_t index; /* ECX */
} items[] = {
    {"rdmsr_evtsel", loop_rdmsr, MSR_PERFEVTSEL0},   {"wrmsr_evtsel", loop_wrmsr, MSR_PERFEVTSEL0},
    {"rdmsr_pmc", loop_rdmsr, MSR_A_PMC0},           {"wrmsr_pmc", loop_wrmsr, MSR_A_PMC0},
    {"rdmsr_ctrl", loop_rdmsr, MSR_GLOBAL_CTRL},     {"wrmsr_ctrl", loop_wrmsr, MSR_GLOBAL_CTRL},
    {"rdmsr_status", loop_rdmsr, MSR_GLOBAL_STATUS}, {"rdpmc", loop_rdpmc, 0},
};
#define ITEMS (sizeof(items) / sizeof(items[0]))

static void change_item(const struct item *item, const struct pmu *pmu, uint32_t index,
                        const struct loop *registers, uint64_t event_select, uint64_t ctrl)
{
    if (pmu->why_not != NULL) {
        item_skip(item, pmu->why_not);
        return;
    }
    if (!item_ready(item))
        return;
    struct loop loop = *registers;
    loop.rcx = index;
    wrmsr(MSR_PERFEVTSEL0, event_select);
    wrmsr(MSR_GLOBAL_CTRL, ctrl);
    item_loop(item, loop_wrmsr_xor, &loop);
    wrmsr(MSR_GLOBAL_CTRL, 0);
    wrmsr(MSR_PERFEVTSEL0, 0);
}

static void changes(const struct pmu *pmu, uint32_t region)
{
    const struct item empty = {NAME, BASE_CHANGE, NULL, region};
    const struct item evtsel = {NAME, "wrmsr_evtsel_change", BASE_CHANGE, region + 1};
    const struct item ctrl = {NAME, "wrmsr_ctrl_change", BASE_CHANGE, region + 2};
    /* RAX begins with the value that is there, and RBX is what changes. */
    const struct loop enable = {.rax = USER_BRANCHES, .rbx = EVENTSEL_EN};
    const struct loop start = {.rax = 0, .rbx = COUNTER_0};

    measure_loop(&empty, loop_empty_xor, &enable);
    change_item(&evtsel, pmu, MSR_PERFEVTSEL0, &enable, USER_BRANCHES, COUNTER_0);
    change_item(&ctrl, pmu, MSR_GLOBAL_CTRL, &start, USER_BRANCHES | EVENTSEL_EN, 0);
}

/* The first record's FROM; 0: a hypervisor or the processor shows no records. */
static uint32_t record_index(void)
{
    uint64_t format = 0;

    if (cpuid(1, 0).ecx & LEAF_1_ECX_PDCM)
        format = rdmsr(MSR_PERF_CAPABILITIES_INDEX) & PERF_CAPABILITIES_LBR_FMT;
    if (format == PERF_CAPABILITIES_LBR_FMT)
        return cpuid(7, 0).edx & LEAF_7_EDX_ARCH_LBR ? MSR_LBR_0_FROM_IP : 0;
    return format != 0 ? MSR_LASTBRANCH_0_FROM_IP : 0;
}

/* There are LBR_PLACES, from this record's FROM on: more than are there would fault. */
static bool all_places(uint32_t first)
{
    if (first == MSR_LBR_0_FROM_IP)
        return rdmsr(MSR_LBR_DEPTH) == LBR_PLACES;
    return (rdmsr(MSR_PERF_CAPABILITIES_INDEX) & PERF_CAPABILITIES_LBR_FMT) ==
           PERF_CAPABILITIES_LBR_FMT_INFO;
}

static void records(uint32_t region)
{
    const struct item read = {NAME, "rdmsr_lbr_from", BASE, region};
    const struct item write = {NAME, "wrmsr_lbr_from", BASE, region + 1};
    const struct item all = {NAME, "read_lbrs", BASE, region + 2};
    struct loop registers = {.rax = 0, .rcx = record_index()};
    bool ring = registers.rcx == MSR_LASTBRANCH_0_FROM_IP;

    if (registers.rcx == 0) {
        item_skip(&read, NO_RECORDS);
        item_skip(&write, NO_RECORDS);
        item_skip(&all, NO_RECORDS);
        return;
    }
    measure_loop(&read, loop_rdmsr, &registers);
    measure_loop(&write, loop_wrmsr, &registers);
    registers.rbx = ring ? MSR_LASTBRANCH_TO : MSR_LBR_TO;
    registers.rax = ring ? MSR_LASTBRANCH_INFO : (uint64_t)MSR_LBR_INFO;
    if (all_places(ring ? MSR_LASTBRANCH_0_FROM_IP : MSR_LBR_0_FROM_IP))
        measure_loop(&all, loop_records, &registers);
    else
        item_skip(&all, "fewer than 32 branch records, or not known how many");
}

void measure_msr(void)
{
    const struct item empty = {NAME, "empty", NULL, REGION_MSR_FIRST};
    struct loop registers = {.rax = 0};
    const struct pmu *pmu = pmu_found();

    measure_loop(&empty, loop_empty, &registers);
    for (unsigned i = 0; i < ITEMS; i++) {
        const struct item item = {NAME, items[i].name, BASE, REGION_MSR_FIRST + 1 + i};
        registers.rcx = items[i].index;
        if (pmu->why_not != NULL)
            item_skip(&item, pmu->why_not);
        else if (items[i].index == MSR_A_PMC0 && !pmu->full_width)
            item_skip(&item, "no full-width counter writes: IA32_A_PMC0 does not exist");
        else
            measure_loop(&item, items[i].function, &registers);
    }
    changes(pmu, REGION_MSR_FIRST + 1 + ITEMS);
    records(REGION_MSR_FIRST + 1 + ITEMS + 3);
}
