/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A sweep as in sweep.c, over the exits of policy=demand: one NMI at each root-mode instruction of
 * the exit in which the PMU begins to pass, of the tick that finds nothing counting, and of the one
 * after which accesses exit again. `demand-sweep:KIND:FIRST:POSITIONS:TICK`: KIND is open, look or
 * close, TICK the ticks of the TSC from one tick of the hypervisor's to the next. Each round is
 * these three exits, in this order, and no other WRMSR that exits: that is checked, too.
 */
#include "kernel.h"

#include "console/log.h"
#include "hypercall.h"
#include "msr.h"
#include "vmx.h"
#include "x86.h"

#define REGION_DEMAND_SWEEP 1980 /* and 1981, 1982: the kinds */
#define CLEAN_ROUNDS 8
#define LINGER 32 /* iterations: longer than it takes a pending NMI */
#define EVENT_INSTRUCTIONS 0xc0
#define NOTES_MAX 8

enum { OPEN, LOOK, CLOSE, STEPS };

static uint64_t exits_so_far(unsigned reason)
{
    return (uint64_t)hypercall(HYPERCALL_STATISTICS, reason);
}

/* GLOBAL_CTRL is 0: it is enabled, and does not count. */
static void step_open(void) { wrmsr(IA32_PERFEVTSEL0, EVENT_INSTRUCTIONS | EVTSEL_OS | EVTSEL_EN); }

/* One tick: the timer begins anew at each entry, and this ends at half of the next one. */
static void step_tick(uint64_t tick)
{
    for (uint64_t start = rdtsc(); rdtsc() - start < tick + tick / 2;)
        __asm__ volatile("pause");
}

/* One round. `marked`: this step is in a region. Gives the WRMSRs that exited. */
static uint64_t run_round(uint64_t tick, unsigned marked)
{
    uint64_t writes = exits_so_far(EXIT_REASON_WRMSR);

    for (unsigned step = OPEN; step < STEPS; step++) {
        if (step == marked)
            region_mark(REGION_DEMAND_SWEEP + step, true);
        if (step == OPEN)
            step_open();
        else
            step_tick(tick);
        if (step == marked)
            region_mark(REGION_DEMAND_SWEEP + step, false);
        for (unsigned i = 0; i < LINGER; i++)
            __asm__ volatile("pause");
        settle();
    }
    return exits_so_far(EXIT_REASON_WRMSR) - writes;
}

void test_demand_sweep(const struct job *job)
{
    uint64_t first = job->number[0], tick = job->number[2], next;
    uint64_t delivered = 0, silent = 0, wrong = 0;
    unsigned kind = job->word[0] == 'o' ? OPEN : job->word[0] == 'l' ? LOOK : CLOSE;
    unsigned reason = kind == OPEN ? EXIT_REASON_WRMSR : EXIT_REASON_PREEMPTION_TIMER;
    uint64_t before = kind == CLOSE; /* exits of this reason in a round, before it */

    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    step_tick(tick);
    if (kind != OPEN && (exits_so_far(reason) + before + 1) % 2 != first % 2)
        step_tick(tick);
    while ((next = exits_so_far(reason) + before + 1) < first && wrong == 0)
        wrong += run_round(tick, next + CLEAN_ROUNDS >= first ? kind : STEPS) != 1;
    if (next != first || wrong != 0) {
        tap_note("the next exit is %lu, and %lu rounds were others", next, wrong);
        tap_result(false, job->name, "wanted a first exit still to come");
        return;
    }
    for (uint64_t position = 1; position <= job->number[1]; position++) {
        uint64_t nmis = nmi.count, writes = run_round(tick, STEPS);

        nmis = nmi.count - nmis;
        silent += nmis == 0;
        delivered += nmis == 1;
        if (writes != 1 || nmis > 1 || (nmis == 1 && silent != 0)) {
            if (wrong++ < NOTES_MAX)
                tap_note("position %lu: %lu NMIs, %lu writes exited", position, nmis, writes);
        }
    }
    wrmsr(IA32_PERFEVTSEL0, 0);
    log_printf("sweep: name=%s delivered=%lu silent=%lu wrong=%lu\n", job->name, delivered, silent,
               wrong);
    tap_result(wrong == 0 && delivered != 0 && silent != 0, job->name, NULL);
}
