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
#define BASE_SWITCH "vmcall_unknown"
#define PERIOD 1000 /* branches: well inside the waiting loop, which has one in each turn */
#define TURNS 10000000ull
#define SWITCH_BRANCHES 1
#define SWITCH_PERIOD 200000 /* no PMI comes of it */
#define NO_SUCH_HYPERCALL (~0ull)
#define FOREIGN_MAX 16 /* NMIs of somebody else's, for one of a counter's */
#define NO_NMI "an NMI that was sent did not come"

static uint64_t back_samples[MEASURE_RUNS_MAX], skid_samples[MEASURE_RUNS_MAX];

static void arm(const struct pmu *pmu, uint64_t branches)
{
    wrmsr(MSR_GLOBAL_CTRL, 0);
    wrmsr(MSR_GLOBAL_OVF_CTRL, COUNTER_0);
    wrmsr(MSR_PERFEVTSEL0, EVENT_BRANCHES | EVENTSEL_OS | EVENTSEL_INT | EVENTSEL_EN);
    wrmsr(pmu->counter_msr, -branches & pmu->counter_mask);
    lvtpc_write(LVTPC_NMI);
}

static void disarm(void)
{
    wrmsr(MSR_GLOBAL_CTRL, 0);
    wrmsr(MSR_GLOBAL_OVF_CTRL, COUNTER_0);
    wrmsr(MSR_PERFEVTSEL0, 0);
    lvtpc_write(LVTPC_NMI | LVTPC_MASKED);
}

/* Until it was the counter's own NMI that ended the wait: the counter, which begins below 0, was
 * beyond it in the handler. */
static bool overflow_once(const struct pmu *pmu)
{
    for (unsigned i = 0; i < FOREIGN_MAX; i++) {
        arm(pmu, PERIOD);
        wrmsr(MSR_GLOBAL_CTRL, COUNTER_0);
        bool came = wait_overflow(TURNS) != 0;
        wrmsr(MSR_GLOBAL_CTRL, 0);
        bool ours = rdmsr(MSR_GLOBAL_STATUS) & COUNTER_0 &&
                    measure_stamps.events < (uint32_t)-PERIOD;
        disarm();
        if (!came || ours)
            return came;
        measure_nmi_strays++;
    }
    return false;
}

static bool overflow_marked(const struct pmu *pmu, uint32_t there, uint32_t back)
{
    nmi_take(measure_nmi_mark);
    arm(pmu, 1);
    bool came = mark_overflow(TURNS, there, back) != 0;
    disarm();
    nmi_give_back();
    return came;
}

static bool overflows(const struct pmu *pmu)
{
    uint32_t runs = runs_wanted();

    nmi_take(measure_nmi_overflow);
    bool came = overflow_once(pmu); /* caches and branch predictors */
    for (uint32_t i = 0; i < runs && came; i++) {
        came = overflow_once(pmu);
        measure_samples[i] = measure_stamps.first - measure_stamps.last;
        back_samples[i] = measure_stamps.back - measure_stamps.leave;
        skid_samples[i] = measure_stamps.events;
    }
    nmi_give_back();
    return came;
}

static void overflow_items(const struct pmu *pmu, uint32_t region)
{
    const struct item there = {NAME, "overflow_to_handler", NULL, region};
    const struct item back = {NAME, "handler_to_iret", NULL, region + 1};
    const char *why = pmu->why_not != NULL ? pmu->why_not : lvtpc_why_not();

    if (why == NULL) {
        if (!item_ready(&there)) {
            item_skip(&back, "as overflow_to_handler");
            return;
        }
        if (!overflows(pmu) || !overflow_marked(pmu, there.region, back.region))
            why = "a counter overflowed and no PMI came";
    }
    if (why != NULL) {
        item_skip(&there, why);
        item_skip(&back, why);
        return;
    }
    item_latency(&there, measure_samples, runs_wanted());
    item_counts(&there, "skid", skid_samples, runs_wanted());
    item_latency(&back, back_samples, runs_wanted());
}

static void lvtpc_item(const struct item *item)
{
    volatile uint32_t *address = xapic_lvtpc();
    struct loop registers = {.rax = LVTPC_NMI | LVTPC_MASKED};

    if (lvtpc_why_not() != NULL) {
        item_skip(item, lvtpc_why_not());
        return;
    }
    if (address != NULL) {
        registers.rdx = (uintptr_t)address;
        measure_loop(item, loop_store, &registers);
    } else {
        registers.rcx = X2APIC_LVTPC;
        measure_loop(item, loop_wrmsr, &registers);
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

    nmi_take(measure_nmi_mark);
    bool came = icr != NULL ? mark_sent_xapic(TURNS, there, back, icr, low)
                            : mark_sent_x2apic(TURNS, there, back, X2APIC_ICR, low, high);
    nmi_give_back();
    return came;
}

static void self_item(const struct item *item, uint32_t region_back)
{
    uint32_t runs = runs_wanted();

    if (!item_ready(item))
        return;
    nmi_take(measure_nmi_stamp);
    bool came = send_once();
    for (uint32_t i = 0; i < runs && came; i++) {
        came = send_once();
        measure_samples[i] = measure_stamps.first - measure_stamps.last;
    }
    nmi_give_back();
    if (came && send_marked(item->region, region_back))
        item_latency(item, measure_samples, runs);
    else
        item_skip(item, NO_NMI);
}

/* The base is the exit and the hypervisor's way to a hypercall that it does not have. */
static void switch_items(const struct item *base, const struct item *item)
{
    const struct loop unknown = {
        .rax = NO_SUCH_HYPERCALL, .rbx = SWITCH_BRANCHES, .rcx = SWITCH_PERIOD};
    const struct loop registers = {
        .rax = HYPERCALL_HOST_WORK, .rbx = SWITCH_BRANCHES, .rcx = SWITCH_PERIOD};
    int64_t result;
    uint64_t branches = SWITCH_BRANCHES;

    if (measure_host->hypervisor != MEASURE_PMUVISOR) {
        const char *why = measure_host->hypervisor == MEASURE_NATIVE ? "no hypervisor"
                                                                     : "not under PMUvisor";
        item_skip(base, why);
        item_skip(item, why);
        return;
    }
    __asm__ volatile("vmcall"
                     : "=a"(result), "+b"(branches)
                     : "a"((uint64_t)HYPERCALL_HOST_WORK), "c"((uint64_t)SWITCH_PERIOD), "d"(0ul)
                     : "memory");
    measure_loop(base, loop_vmcall_rbx, &unknown);
    if (result < 0)
        item_skip(item, "hypercall 18 was refused");
    else
        measure_loop(item, loop_vmcall_rbx, &registers);
}

void measure_pmi(void)
{
    uint32_t region = REGION_PMI_FIRST;
    const struct item empty = {NAME, BASE, NULL, region++};
    const struct item unknown = {NAME, BASE_SWITCH, NULL, region++};
    const struct item lvtpc = {NAME, "lvtpc_write", BASE, region++};
    const struct item self = {NAME, "nmi_self", NULL, region++};
    const struct item full_switch = {NAME, "pmu_switch", BASE_SWITCH, region++};
    const struct item apic = {NAME, "apic", NULL, 0};
    const struct loop zero = {.rax = 0};

    item_count(&apic, "x2apic", xapic_lvtpc() == NULL);
    measure_loop(&empty, loop_empty, &zero);
    overflow_items(pmu_found(), region);
    lvtpc_item(&lvtpc);
    self_item(&self, region + 2);
    switch_items(&unknown, &full_switch);
}
