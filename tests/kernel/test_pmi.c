/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A PMI from the overflow to the handler's unmasking of LVTPC, and PMIs whose skid ends before, in
 * and behind an exit. SDM Vol. 3, "Performance Monitoring", "Local Vector Table".
 */
#include "kernel.h"

#include "console/log.h"
#include "probe.h"

#define ROUNDS 100
#define CLEAN_ROUNDS 8
#define PERIOD 100
#define PMI_WAIT 1000 /* iterations: longer than the period and any skid */

static uint64_t unmasked_seen, no_overflow_seen;

/* As an operating system's handler: stop, look, acknowledge, unmask. */
static void handle_pmi(void)
{
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    no_overflow_seen += !(rdmsr(IA32_PERF_GLOBAL_STATUS) & FIXED_COUNTER_0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, FIXED_COUNTER_0);
    unmasked_seen += !(apic_read_lvtpc() & LVT_MASKED);
    apic_write_lvtpc(LVT_NMI);
}

/* Overflows at the n-th instruction behind the WRMSR that starts the counter, which counts that one
 * as well: it is on when the WRMSR retires. */
static void arm(uint64_t n)
{
    wrmsr(IA32_FIXED_CTR0, -(n + 1) & COUNTER_MASK);
    nmi.action = handle_pmi;
}

static void pmu_on(void)
{
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, FIXED_COUNTER_0);
    wrmsr(IA32_FIXED_CTR_CTRL, FIXED_0_OS | FIXED_0_PMI);
    apic_write_lvtpc(LVT_NMI);
    unmasked_seen = no_overflow_seen = 0;
}

static void pmu_off(void)
{
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
}

static bool state_was_right(void)
{
    if (unmasked_seen != 0)
        tap_note("LVTPC was not masked in %lu handlers", unmasked_seen);
    if (no_overflow_seen != 0)
        tap_note("GLOBAL_STATUS showed no overflow in %lu handlers", no_overflow_seen);
    return unmasked_seen == 0 && no_overflow_seen == 0;
}

void test_pmi(const struct job *job)
{
    uint64_t rounds = job->number[0] != 0 ? job->number[0] : ROUNDS, before = nmi.count;

    if (!pmu_there(job))
        return;
    pmu_on();
    region_mark(REGION_PMI, true);
    for (uint64_t i = 0; i < rounds; i++) {
        arm(PERIOD);
        wrmsr(IA32_PERF_GLOBAL_CTRL, FIXED_COUNTER_0);
        for (unsigned w = 0; w < PMI_WAIT && nmi.count == before + i; w++)
            __asm__ volatile("nop");
    }
    region_mark(REGION_PMI, false);
    pmu_off();
    nmi.action = NULL;
    if (nmi.count - before != rounds)
        tap_note("%lu PMIs, wanted %lu", nmi.count - before, rounds);
    tap_result(state_was_right() && nmi.count - before == rounds, job->name, NULL);
}

/* `sweep-pmi:SKIDS`: SKIDS PMIs for every distance from the overflow to the exit, from PMI_BEFORE
 * instructions down to 1. The emulator decides on the skid of each: one for all, or another for
 * each of the SKIDS. So it comes before the exit, at each instruction of it, and behind. */
void test_sweep_pmi(const struct job *job)
{
    uint64_t skids = job->number[0], wrong = 0, at_entry = 0, before = nmi.count;
    const char *why;

    if (!pmu_there(job))
        return;
    if (skids == 0) {
        tap_result(false, job->name, "wanted sweep-pmi:SKIDS");
        return;
    }
    if (!probe_learn(PROBE_CPUID, &why)) {
        tap_skip(job->name, why);
        return;
    }
    pmu_on();
    /* The path that the exit takes here, without a PMI. */
    for (unsigned i = 0; i < CLEAN_ROUNDS; i++) {
        wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
        wrmsr(IA32_FIXED_CTR0, 0);
        settle();
        region_mark(REGION_SWEEP_PMI_CLEAN, true);
        wrong += !probe_once_counted(FIXED_COUNTER_0, i);
        region_mark(REGION_SWEEP_PMI_CLEAN, false);
    }
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    region_mark(REGION_SWEEP_PMI, true);
    for (uint64_t overflow = 1; overflow <= PMI_BEFORE; overflow++) {
        for (uint64_t skid = 0; skid < skids; skid++) {
            uint64_t now = nmi.count;
            settle();
            arm(overflow);
            bool right = probe_once_counted(FIXED_COUNTER_0, (unsigned)(overflow * skids + skid));
            at_entry += nmi.rip == (uintptr_t)probe_counted_after;
            if (nmi.count - now == 1 && right)
                continue;
            if (wrong++ < 8)
                tap_note("overflow at instruction %lu, skid %lu of %lu: %lu PMIs", overflow, skid,
                         skids, nmi.count - now);
        }
    }
    region_mark(REGION_SWEEP_PMI, false);
    pmu_off();
    nmi.action = NULL;
    log_printf("sweep: name=%s delivered=%lu wanted=%lu at_entry=%lu wrong=%lu\n", job->name,
               nmi.count - before, PMI_BEFORE * skids, at_entry, wrong);
    tap_result(state_was_right() && wrong == 0 && nmi.count - before == PMI_BEFORE * skids,
               job->name, NULL);
}
