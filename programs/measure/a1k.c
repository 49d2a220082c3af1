/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The thesis's program A.1 without an operating system: N branches, a PMI for every M of them, and
 * a handler that touches the PMU and LVTPC as Linux's does, in the same order: 4 WRMSR, 2 RDMSR,
 * 1 RDPMC, 1 LVTPC write. Thesis, section 4.2.2 and appendix A.1; SDM Vol. 3, "Performance
 * Monitoring". Linux counts the program alone, by its CPL; here all is CPL 0, so the branches that
 * the handler itself executes while the counter runs are learnt first, and left out by number.
 */
#include "internal.h"

#define NAME "a1k"
#define BRANCHES 100000ull
#define LEARN_PERIOD 10000ull
#define BEHIND 256 /* NOPs in which a PMI of the last branch arrives, where its skid is small */
#define LATE_TSC 100000 /* after the program: more than the latest PMI takes */
#define RUNS_AT_ONCE 16 /* before the host's interrupts are let in */
#define FAR_OFF                                                                                    \
    16 /* so many times too few PMIs, or twice too many, are no measurement any more               \
        */

static const struct {
    const char *name;
    uint64_t period;
} items[] = {{"m200000", 200000}, {"m10000", 10000}, {"m1000", 1000}, {"m100", 100}};
#define ITEMS (sizeof(items) / sizeof(items[0]))

static const struct pmu *pmu;
static uint64_t period, handler_branches; /* of each PMI */
static uint64_t pmis, late;               /* late: of them, those that found the counter stopped */
static uint64_t counted, programmed;      /* counted: until the last time the counter was set */
static volatile bool enabled;             /* Linux's cpuc->enabled */

static void handle_overflow(uint64_t status)
{
    wrmsr(MSR_GLOBAL_OVF_CTRL, status);
    uint64_t beyond = counter_read(0), next = period + handler_branches;
    counted += programmed + beyond;
    /* What came since the overflow is part of the next period, unless that is over already. */
    programmed = beyond < next ? next - beyond : next;
    wrmsr(pmu->counter_msr, -programmed & pmu->counter_mask);
    pmis++;
    (void)rdmsr(MSR_GLOBAL_STATUS);
}

/* Linux, arch/x86/events/intel/core.c, intel_pmu_handle_irq(), for one counter and late_ack. */
static void handle_pmi(void)
{
    wrmsr(MSR_GLOBAL_CTRL, 0);
    uint64_t status = rdmsr(MSR_GLOBAL_STATUS);
    if (enabled && status & COUNTER_0) {
        handle_overflow(status);
    } else if (status & COUNTER_0) {
        /* After the program, which reads the counter as it is: it goes on counting from 0. */
        wrmsr(MSR_GLOBAL_OVF_CTRL, status);
        pmis++;
        late++;
    } else {
        measure_nmi_strays++;
    }
    if (enabled)
        wrmsr(MSR_GLOBAL_CTRL, COUNTER_0);
    lvtpc_write(LVTPC_NMI);
}

/* From the WRMSR that starts the counter to the one that stops it: the loop's branches alone. A
 * PMI between the MOV and that WRMSR leaves the counter stopped. */
static void run_branches(void)
{
    __asm__ volatile(
        "mov %[start], %%eax\n\t"
        "xor %%edx, %%edx\n\t"
        "mov %[n], %%rsi\n\t"
        "wrmsr\n"
        "1:\n\t"
        "dec %%rsi\n\t"
        "jnz 1b\n\t"
        ".fill %c[behind], 1, 0x90\n\t"
        "movb $0, %[enabled]\n\t"
        "xor %%eax, %%eax\n\t"
        "xor %%edx, %%edx\n\t"
        "wrmsr"
        : [enabled] "+m"(enabled)
        : "c"(MSR_GLOBAL_CTRL), [start] "i"(COUNTER_0), [n] "r"(BRANCHES), [behind] "i"(BEHIND)
        : "rax", "rdx", "rsi", "memory", "cc");
}

/* As A.1: set up, run, read. The counter is stopped before and after. */
static void program(uint64_t m)
{
    period = programmed = m;
    pmis = late = counted = 0;
    wrmsr(MSR_GLOBAL_OVF_CTRL, COUNTER_0);
    wrmsr(pmu->counter_msr, -m & pmu->counter_mask);
    wrmsr(MSR_PERFEVTSEL0, EVENT_BRANCHES | EVENTSEL_OS | EVENTSEL_INT | EVENTSEL_EN);
    lvtpc_write(LVTPC_NMI);
    enabled = true;
    run_branches();
    wrmsr(MSR_PERFEVTSEL0, 0);
    counted += (counter_read(0) + programmed) & pmu->counter_mask;
}

/* Outside what is measured: a PMI may still be on its way, and belongs to the program before. */
static void wait_for_late(void)
{
    for (uint64_t begin = tsc(); tsc() - begin < LATE_TSC;)
        __asm__ volatile("pause" : : : "memory");
}

static void learn_handler(void)
{
    handler_branches = 0;
    nmi_take(measure_nmi_call);
    wrmsr(MSR_GLOBAL_CTRL, 0);
    program(LEARN_PERIOD);
    wait_for_late();
    lvtpc_write(LVTPC_NMI | LVTPC_MASKED);
    nmi_give_back();
    uint64_t running = pmis - late;
    if (running != 0 && counted > BRANCHES)
        handler_branches = (counted - BRANCHES + running / 2) / running;
}

static uint64_t timed(uint64_t m)
{
    wrmsr(MSR_GLOBAL_CTRL, 0);
    uint64_t begin = tsc();
    program(m);
    uint64_t taken = tsc() - begin;
    wait_for_late();
    return taken;
}

/* Fewer than wanted are honest where a PMI takes longer than the period; see README.md. */
static void check_pmis(const struct item *item, uint64_t wanted)
{
    if (pmis * FAR_OFF >= wanted && pmis <= 2 * wanted)
        return;
    measure_failed++;
    measure_host->print("measure: a1k %s: found %lu PMIs, wanted %lu, between %lu and %lu; nothing "
                        "else may use the counters or NMIs\n",
                        item->name, (unsigned long)pmis, (unsigned long)wanted,
                        (unsigned long)((wanted + FAR_OFF - 1) / FAR_OFF),
                        (unsigned long)(2 * wanted));
}

static void run_item(const struct item *item, uint64_t m)
{
    uint32_t runs = runs_wanted();

    for (uint32_t i = 0; i < runs; i++) {
        if (i % RUNS_AT_ONCE == 0) {
            if (i != 0)
                nmi_give_back();
            if (!item_ready(item))
                return;
            nmi_take(measure_nmi_call);
            (void)timed(m); /* caches and branch predictors */
        }
        measure_samples[i] = timed(m);
    }
    wrmsr(MSR_GLOBAL_CTRL, 0);
    region_mark(item->region, true);
    program(m);
    region_mark(item->region, false);
    wait_for_late();
    lvtpc_write(LVTPC_NMI | LVTPC_MASKED);
    nmi_give_back();
    item_latency(item, measure_samples, runs);
    item_count(item, "pmis", pmis);
    item_count(item, "pmis_expected", BRANCHES / m);
    item_count(item, "branches", counted - (pmis - late) * handler_branches);
    item_count(item, "handler_branches", handler_branches);
    check_pmis(item, BRANCHES / m);
}

void measure_a1k(void)
{
    const char *why;
    bool learnt = false;

    pmu = pmu_found();
    why = lvtpc_why_not();
    measure_nmi_action = handle_pmi;
    for (unsigned i = 0; i < ITEMS; i++) {
        const struct item item = {NAME, items[i].name, NULL, REGION_A1K_FIRST + i};
        if (why != NULL) {
            item_skip(&item, why);
            continue;
        }
        if (!learnt)
            learn_handler();
        learnt = true;
        run_item(&item, items[i].period);
    }
    measure_nmi_action = NULL;
}
