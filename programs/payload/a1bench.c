/* SPDX-License-Identifier: BSD-2-Clause
 * a1bench.c: the job `a1bench`, the measurement `a1` (thesis, section 4.2.2 and Table 4.2): program
 * A.1 for each M, one marked pass and pmv.a1_runs= timed ones.
 * SDM Vol. 3, "Performance Monitoring".
 *
 * Under policy=msr+nmi the program has the appendix's two hypercalls, and NMI passthrough is off
 * before it and on again when the job ends. They are its only exits, so what is between them is
 * measured as an item of its own, mNNN_inner. Under the other policies there are none: with them
 * the column would no longer be MSR passthrough alone. Natively there is no one to call.
 *
 * A processor may count a branch too many at each interrupt, the return to user mode, and then has
 * some PMIs more than N/M. So a run may be off by DEVIATION_PERCENT, and by how many PMIs the worst
 * one was is said for each M. An M with a run that is further off is left out, the others stay.
 */
#include "a1.h"
#include "hypercall.h"
#include "../measure/statistics.h"
#include "payload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_RUNS "30"
#define RUNS_MAX 1000
#define WORD_MAX 32
#define WHY_MAX 128
#define PERCENT 100
/* One branch too many for each of the PMIs every 100 branches is 1 %; ticks come on top. */
#define DEVIATION_PERCENT 5

/* What came of one M; `why` says what was wrong with it, if anything. */
struct outcome {
    unsigned long long period;
    uint32_t region, inner_region;
    struct a1_result marked;
    uint64_t times[RUNS_MAX];
    long long deviation;
    char why[WHY_MAX];
};

static void print_value(unsigned long long period, const char *metric, long long value)
{
    printf("bench: experiment=a1 item=m%llu metric=%s unit=count value=%lld\n", period, metric,
           value);
}

static void print_outcome(struct outcome *o, unsigned runs)
{
    if (o->why[0] != '\0') {
        printf("bench: experiment=a1 item=m%llu skip=\"%s\"\n", o->period, o->why);
        return;
    }
    struct distribution d = distribution_of(o->times, runs);
    printf("bench: experiment=a1 item=m%llu region=%u ops=1 metric=time unit=ns n=%u min=%llu "
           "median=%llu p95=%llu\n",
           o->period, o->region, runs, (unsigned long long)d.min, (unsigned long long)d.median,
           (unsigned long long)d.p95);
    print_value(o->period, "pmis", o->marked.pmis);
    print_value(o->period, "branches", o->marked.count);
    print_value(o->period, "pmis_deviation", o->deviation);
    printf("bench: experiment=a1 item=m%llu_inner region=%u ops=1\n", o->period, o->inner_region);
}

/* One run; false when it is no measurement, and then `why` says so. */
static bool run(const struct a1_plan *plan, struct a1_result *r, struct outcome *o)
{
    int error = a1_run(plan, r);
    long long off;

    if (error != 0) {
        snprintf(o->why, sizeof(o->why), "%s%s", strerror(-error),
                 error == -EPERM ? "; hypercalls want user_hypercalls=1" : "");
        return false;
    }
    off = llabs(r->pmis - r->expected);
    if (off > o->deviation)
        o->deviation = off;
    if (off * PERCENT > r->expected * DEVIATION_PERCENT) {
        snprintf(o->why, sizeof(o->why), "a run had %lld PMIs, wanted %lld within %d percent",
                 r->pmis, r->expected, DEVIATION_PERCENT);
        return false;
    }
    return true;
}

static bool measure(struct outcome *o, bool hypercalls, unsigned runs)
{
    struct a1_plan plan = {.period = o->period, .hypercalls = hypercalls};
    struct a1_result timed = {0};

    /* First uses (page faults, lazily allocated structures of perf) belong to no run. */
    if (!run(&plan, &timed, o))
        return false;
    plan.region = o->region;
    plan.inner_region = o->inner_region;
    if (!run(&plan, &o->marked, o))
        return false;
    plan.region = plan.inner_region = 0;
    for (unsigned i = 0; i < runs; i++) {
        if (!run(&plan, &timed, o))
            return false;
        o->times[i] = (uint64_t)timed.nanoseconds;
    }
    return true;
}

/* 0 when there is a result for some M. */
static int measure_each(bool hypercalls, unsigned runs)
{
    static struct outcome outcomes[A1_RUNS];
    const char *why = NULL;
    size_t measured = 0;

    for (size_t i = 0; i < A1_RUNS; i++) {
        struct outcome *o = &outcomes[i];

        o->period = a1_periods[i];
        o->region = (uint32_t)(REGION_A1BENCH + i);
        o->inner_region = (uint32_t)(REGION_A1BENCH_INNER + i);
        if (measure(o, hypercalls, runs))
            measured++;
        else
            why = o->why;
        print_outcome(o, runs);
    }
    if (measured == 0)
        printf("a1bench: error=\"no M could be measured: %s\"\n", why);
    return measured == 0;
}

JOB(a1bench)
{
    bool hypercalls = hyper_present() && strcmp(hyper_policy(), "msr+nmi") == 0;
    bool watchdog = nmi_watchdog_runs();
    char word[WORD_MAX];
    unsigned long runs;
    int failed = 1;
    int error;

    command_line_word("pmv.a1_runs", DEFAULT_RUNS, word, sizeof(word));
    runs = strtoul(word, NULL, 10);
    if (runs < 1 || runs > RUNS_MAX) {
        printf("a1bench: error=\"pmv.a1_runs=%s, wanted 1 to %d\"\n", word, RUNS_MAX);
        return 1;
    }
    error = perf_lift_limits();
    if (error != 0) {
        printf("a1bench: error=\"cannot lift perf's rate limit: %s\"\n", strerror(-error));
    } else if (hypercalls && hyper_call(HYPERCALL_NMI_PASSTHROUGH_OFF) != 0) {
        printf("a1bench: error=\"hypercall %d was refused; set user_hypercalls=1\"\n",
               HYPERCALL_NMI_PASSTHROUGH_OFF);
    } else {
        failed = measure_each(hypercalls, (unsigned)runs);
        if (hypercalls)
            hyper_call(HYPERCALL_NMI_PASSTHROUGH_ON);
    }
    nmi_watchdog_set(watchdog);
    return failed;
}
