/* SPDX-License-Identifier: BSD-2-Clause
 * a1bench.c: the job `a1bench`, the measurement `a1` (thesis, section 4.2.2 and Table 4.2): program
 * A.1 for each M, one marked pass and pmv.a1_runs= timed ones.
 * SDM Vol. 3, "Performance Monitoring".
 *
 * Under policy=msr+nmi the program has the appendix's two hypercalls, and NMI passthrough is off
 * before it and on again when the job ends. They are its only exits, so what is between them is
 * measured as an item of its own, mNNN_inner. Under the other policies there are none: with them
 * the column would no longer be MSR passthrough alone. Natively there is no one to call.
 */
#include "a1.h"
#include "hypercall.h"
#include "payload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_RUNS "30"
#define RUNS_MAX 1000
#define WORD_MAX 32
#define PERCENTILE 95

static int compare(const void *a, const void *b)
{
    const long long left = *(const long long *)a, right = *(const long long *)b;

    return (left > right) - (left < right);
}

static void print_item(unsigned long long period, uint32_t region, const struct a1_result *marked,
                       long long *times, unsigned runs)
{
    /* Nearest rank. */
    unsigned rank = (runs * PERCENTILE + 99) / 100;

    qsort(times, runs, sizeof(*times), compare);
    printf("bench: experiment=a1 item=m%llu region=%u ops=1 metric=time unit=ns n=%u min=%lld "
           "median=%lld p95=%lld\n", period, region, runs, times[0],
           (times[(runs - 1) / 2] + times[runs / 2]) / 2, times[rank - 1]);
    printf("bench: experiment=a1 item=m%llu metric=pmis unit=count value=%lld\n", period,
           marked->pmis);
    printf("bench: experiment=a1 item=m%llu metric=branches unit=count value=%lld\n", period,
           marked->count);
}

/* 0, or 1 after an error line: a run that lost a PMI is no measurement. */
static int check(int error, const struct a1_result *r)
{
    if (error != 0) {
        printf("a1bench: error=\"M=%llu: %s%s\"\n", (unsigned long long)r->period,
               strerror(-error), error == -EPERM ? "; hypercalls want user_hypercalls=1" : "");
        return 1;
    }
    if (r->pmis != r->expected) {
        printf("a1bench: error=\"M=%llu: %lld PMIs, wanted %lld\"\n",
               (unsigned long long)r->period, r->pmis, r->expected);
        return 1;
    }
    return 0;
}

static int measure(size_t index, bool hypercalls, unsigned runs)
{
    static long long times[RUNS_MAX];
    uint32_t region = (uint32_t)(REGION_A1BENCH + index);
    uint32_t inner = (uint32_t)(REGION_A1BENCH_INNER + index);
    struct a1_plan plan = {.period = a1_periods[index], .hypercalls = hypercalls};
    struct a1_result marked = {.period = plan.period}, timed = marked;

    /* First uses (page faults, lazily allocated structures of perf) belong to no run. */
    if (check(a1_run(&plan, &timed), &timed) != 0) {
        return 1;
    }
    plan.region = region;
    plan.inner_region = inner;
    if (check(a1_run(&plan, &marked), &marked) != 0) {
        return 1;
    }
    plan.region = plan.inner_region = 0;
    for (unsigned i = 0; i < runs; i++) {
        if (check(a1_run(&plan, &timed), &timed) != 0) {
            return 1;
        }
        times[i] = timed.nanoseconds;
    }
    print_item((unsigned long long)plan.period, region, &marked, times, runs);
    printf("bench: experiment=a1 item=m%llu_inner region=%u ops=1\n",
           (unsigned long long)plan.period, inner);
    return 0;
}

int job_a1bench(void)
{
    bool hypercalls = hyper_present() && strcmp(hyper_policy(), "msr+nmi") == 0;
    char word[WORD_MAX];
    unsigned long runs;
    int failed = 0;
    int error;

    command_line_word("pmv.a1_runs", DEFAULT_RUNS, word, sizeof(word));
    runs = strtoul(word, NULL, 10);
    if (runs < 1 || runs > RUNS_MAX) {
        printf("a1bench: error=\"pmv.a1_runs=%s, wanted 1 to %d\"\n", word, RUNS_MAX);
        return 1;
    }
    error = a1_lift_limits();
    if (error != 0) {
        printf("a1bench: error=\"cannot lift perf's rate limit: %s\"\n", strerror(-error));
        return 1;
    }
    if (hypercalls && hyper_call(HYPERCALL_NMI_PASSTHROUGH_OFF) != 0) {
        printf("a1bench: error=\"hypercall %d was refused; set user_hypercalls=1\"\n",
               HYPERCALL_NMI_PASSTHROUGH_OFF);
        return 1;
    }
    for (size_t i = 0; failed == 0 && i < A1_RUNS; i++) {
        failed = measure(i, hypercalls, (unsigned)runs);
    }
    if (hypercalls) {
        hyper_call(HYPERCALL_NMI_PASSTHROUGH_ON);
    }
    return failed;
}
