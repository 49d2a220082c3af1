/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The parts of one PMI: from the overflow to the handler, from the handler back, LVTPC's rewrite;
 * an NMI that the processor sends itself; and a full switch of the PMU to the host and back.
 * SDM Vol. 3, "Performance Monitoring", "Local Vector Table", "Interrupt Command Register (ICR)".
 */
#include "internal.h"

#include "hypercall.h"

#define NAME "pmi"
#define BASE "empty"
#define BASE_SWITCH "empty_rax_rbx"
#define PERIOD 1000 /* branches: well inside the waiting loop, which has one in each turn */
#define TURNS 10000000ull
#define SWITCH_BRANCHES 1
#define SWITCH_PERIOD 200000 /* no PMI comes of it */
#define NO_NMI "an NMI that was sent did not come"

static uint64_t back_samples[MEASURE_RUNS_MAX];

static void arm(const struct pmu *pmu, uint64_t branches)
{
    msr_write(MSR_GLOBAL_CTRL, 0);
    msr_write(MSR_GLOBAL_OVF_CTRL, COUNTER_0);
    msr_write(MSR_PERFEVTSEL0, EVENT_BRANCHES | EVENTSEL_OS | EVENTSEL_INT | EVENTSEL_EN);
    msr_write(pmu->counter_msr, -branches & pmu->counter_mask);
    lvtpc_write(LVTPC_NMI);
}

static void disarm(void)
{
    msr_write(MSR_GLOBAL_CTRL, 0);
    msr_write(MSR_GLOBAL_OVF_CTRL, COUNTER_0);
    msr_write(MSR_PERFEVTSEL0, 0);
    lvtpc_write(LVTPC_NMI | LVTPC_MASKED);
}

static bool overflow_once(const struct pmu *pmu)
{
    arm(pmu, PERIOD);
    msr_write(MSR_GLOBAL_CTRL, COUNTER_0);
    bool came = wait_overflow(TURNS) != 0;
    disarm();
    return came;
}

static bool overflow_marked(const struct pmu *pmu, uint32_t there, uint32_t back)
{
    measure_host->nmi_entry(measure_nmi_mark);
    arm(pmu, 1);
    bool came = mark_overflow(TURNS, there, back) != 0;
    disarm();
    measure_host->nmi_entry(NULL);
    return came;
}

static bool overflows(const struct pmu *pmu)
{
    uint32_t runs = runs_wanted();

    measure_host->nmi_entry(measure_nmi_stamp);
    bool came = overflow_once(pmu); /* caches and branch predictors */
    for (uint32_t i = 0; i < runs && came; i++) {
        came = overflow_once(pmu);
        measure_samples[i] = measure_stamps.first - measure_stamps.last;
        back_samples[i] = measure_stamps.back - measure_stamps.leave;
    }
    measure_host->nmi_entry(NULL);
    return came;
}

static void overflow_items(const struct pmu *pmu, uint32_t region)
{
    const struct item there = {NAME, "overflow_to_handler", NULL, region};
    const struct item back = {NAME, "handler_to_iret", NULL, region + 1};
    const char *why = pmu->why_not;

    if (why == NULL && !(overflows(pmu) && overflow_marked(pmu, there.region, back.region)))
        why = "a counter overflowed and no PMI came";
    if (why != NULL) {
        item_skip(&there, why);
        item_skip(&back, why);
        return;
    }
    item_latency(&there, measure_samples, runs_wanted());
    item_latency(&back, back_samples, runs_wanted());
}

static void lvtpc_item(const struct item *item)
{
    volatile uint32_t *address = xapic_lvtpc();
    struct loop registers = {.rax = LVTPC_NMI | LVTPC_MASKED};

    if (address != NULL) {
        registers.rdx = (uintptr_t)address;
        item_loop(item, loop_store, &registers);
    } else {
        registers.rcx = X2APIC_LVTPC;
        item_loop(item, loop_wrmsr, &registers);
    }
}

static bool send_once(void)
{
    uint32_t low, high;
    volatile uint32_t *icr = self_nmi_prepare(&low, &high);

    return icr != NULL ? wait_sent_xapic(TURNS, icr, low)
                       : wait_sent_x2apic(TURNS, X2APIC_ICR, low, high);
}

static bool send_marked(uint32_t there, uint32_t back)
{
    uint32_t low, high;
    volatile uint32_t *icr = self_nmi_prepare(&low, &high);

    measure_host->nmi_entry(measure_nmi_mark);
    bool came = icr != NULL ? mark_sent_xapic(TURNS, there, back, icr, low)
                            : mark_sent_x2apic(TURNS, there, back, X2APIC_ICR, low, high);
    measure_host->nmi_entry(NULL);
    return came;
}

static void self_item(const struct item *item, uint32_t region_back)
{
    uint32_t runs = runs_wanted();

    measure_host->nmi_entry(measure_nmi_stamp);
    bool came = send_once();
    for (uint32_t i = 0; i < runs && came; i++) {
        came = send_once();
        measure_samples[i] = measure_stamps.first - measure_stamps.last;
    }
    measure_host->nmi_entry(NULL);
    if (came && send_marked(item->region, region_back))
        item_latency(item, measure_samples, runs);
    else
        item_skip(item, NO_NMI);
}

static void switch_item(const struct item *item)
{
    const struct loop registers = {.rax = HYPERCALL_HOST_WORK, .rbx = SWITCH_BRANCHES,
                                   .rcx = SWITCH_PERIOD};
    int64_t result;
    uint64_t branches = SWITCH_BRANCHES;

    if (measure_host->hypervisor != MEASURE_PMUVISOR) {
        item_skip(item, measure_host->hypervisor == MEASURE_NATIVE ? "no hypervisor"
                                                                   : "not under PMUvisor");
        return;
    }
    __asm__ volatile("vmcall" : "=a"(result), "+b"(branches)
                              : "a"((uint64_t)HYPERCALL_HOST_WORK), "c"((uint64_t)SWITCH_PERIOD),
                                "d"(0ul)
                              : "memory");
    if (result < 0)
        item_skip(item, "hypercall 18 was refused");
    else
        item_loop(item, loop_vmcall_rbx, &registers);
}

void measure_pmi(void)
{
    uint32_t region = REGION_PMI_FIRST;
    const struct item empty = {NAME, BASE, NULL, region++};
    const struct item empty_switch = {NAME, BASE_SWITCH, NULL, region++};
    const struct item lvtpc = {NAME, "lvtpc_write", BASE, region++};
    const struct item self = {NAME, "nmi_self", NULL, region++};
    const struct item full_switch = {NAME, "pmu_switch", BASE_SWITCH, region++};
    const struct loop zero = {.rax = 0};

    item_loop(&empty, loop_empty, &zero);
    item_loop(&empty_switch, loop_empty_rax_rbx, &zero);
    overflow_items(pmu_found(), region);
    lvtpc_item(&lvtpc);
    self_item(&self, region + 2);
    switch_item(&full_switch);
}
