/* SPDX-License-Identifier: BSD-2-Clause
 * a1.c: the thesis's "Simple Program Using PCL" (its Appendix A.1): a loop of N branches sampled
 * every M, so that N/M PMIs are taken. SDM Vol. 3, "Performance Monitoring".
 *
 * What is measured is the appendix's own sequence, from its first clock_gettime() to its last, with
 * nothing in between that the appendix does not have. PMIs are counted by the kernel itself, in the
 * PMI line of /proc/interrupts, read before and after: no ring buffer, no signal, no wakeup.
 */
#include "a1.h"
#include "hypercall.h"
#include "payload.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NANOSECONDS_PER_SECOND 1000000000L
#define CLOCKS "/sys/devices/system/clocksource/clocksource0/"
#define CLOCK_NAMES_MAX 64
#define TICK_NS 4000000L /* Debian's kernels have 250 ticks a second */
/* From one run of an M to the next: a number of ticks that is prime to the 250 of a second, in
 * which the kernel's own timers come again, and to the 32 after which the scheduler's periods of
 * 1.024 ms do. So the runs meet each of these at other moments; and a run of each M fits. */
#define A1_ROUND_NS (29 * TICK_NS)

/* The first is larger than N: the program without PMIs, the thesis's basic execution time. */
const uint64_t a1_periods[A1_RUNS] = {200000, 10000, 1000, 100};

static struct a1_result results[A1_RUNS];
static bool results_valid;

static int perf_event_open(struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
                           unsigned long flags)
{
    return (int)syscall(SYS_perf_event_open, attr, pid, cpu, group_fd, flags);
}

/* Spins to the next timer tick, so that every run meets the same number of ticks. */
static void wait_for_tick(void)
{
    struct timespec first, now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &first);
    do {
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    } while (now.tv_sec == first.tv_sec && now.tv_nsec == first.tv_nsec);
}

/* Spins to the tick at which so many nanoseconds have gone by since then. */
static void wait_until(const struct timespec *then, long nanoseconds)
{
    struct timespec now;

    do {
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    } while ((now.tv_sec - then->tv_sec) * NANOSECONDS_PER_SECOND + now.tv_nsec - then->tv_nsec <
             nanoseconds);
}

int a1_run(const struct a1_plan *plan, struct a1_result *result)
{
    struct timespec start, end;
    long long pmis, nmis, count = 0;
    long on = 0, off = 0;
    int perf_fd, open_error, error = 0;
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof(struct perf_event_attr),
        .config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS | (uint64_t)plan->pmu << PERF_PMU_TYPE_SHIFT,
        .exclude_kernel = 1,
        .disabled = 1,
        .sample_period = plan->period,
    };

    pmis = interrupt_count("PMI");
    nmis = interrupt_count("NMI");
    wait_for_tick();
    if (plan->region != 0)
        region_begin(plan->region);
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (plan->hypercalls)
        on = hyper_call(HYPERCALL_NMI_PASSTHROUGH_ON);
    if (plan->inner_region != 0)
        region_begin(plan->inner_region);
    perf_fd = perf_event_open(&attr, 0, -1, -1, 0);
    open_error = errno;
    ioctl(perf_fd, PERF_EVENT_IOC_ENABLE, 0);
    for (long i = 0; i < A1_BRANCHES; i++) {
        /* Keeps the loop, its counter and its one branch per round at any optimisation level. */
        __asm__ volatile("" : "+r"(i));
    }
    ioctl(perf_fd, PERF_EVENT_IOC_DISABLE, 0);
    if (plan->inner_region != 0)
        region_end(plan->inner_region);
    if (plan->hypercalls)
        off = hyper_call(HYPERCALL_NMI_PASSTHROUGH_OFF);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (plan->region != 0)
        region_end(plan->region);
    if (perf_fd < 0)
        return -open_error;
    if (read(perf_fd, &count, sizeof(count)) != sizeof(count))
        error = -errno;
    close(perf_fd);
    if (on != 0 || off != 0)
        error = -EPERM;
    *result = (struct a1_result){
        .period = plan->period,
        .expected = A1_BRANCHES / (long long)plan->period,
        .pmis = interrupt_count("PMI") - pmis,
        .nmis = interrupt_count("NMI") - nmis,
        .count = count,
        .nanoseconds = (end.tv_sec - start.tv_sec) * NANOSECONDS_PER_SECOND +
                       (end.tv_nsec - start.tv_nsec),
    };
    return error;
}

static int run_each(void)
{
    struct a1_plan plan = {.period = a1_periods[A1_RUNS - 1]};
    struct a1_result warm_up;
    int failed = 0;
    int error;

    error = perf_lift_limits();
    if (error != 0)
        return fail_job("a1", "cannot lift perf's rate limit", -error);
    /* First uses (page faults, lazily allocated perf structures) belong to no run. */
    error = a1_run(&plan, &warm_up);
    for (size_t i = 0; error == 0 && i < A1_RUNS; i++) {
        struct a1_result *r = &results[i];

        plan.period = a1_periods[i];
        plan.region = (uint32_t)(REGION_A1_FIRST + i);
        error = a1_run(&plan, r);
        printf("a1: region=%zu N=%ld M=%llu expected=%lld pmis=%lld nmis=%lld count=%lld ns=%lld\n",
               REGION_A1_FIRST + i, A1_BRANCHES, (unsigned long long)r->period, r->expected,
               r->pmis, r->nmis, r->count, r->nanoseconds);
        if (r->pmis != r->expected)
            failed = 1;
    }
    if (error != 0)
        return fail_job("a1", "perf_event_open", -error);
    results_valid = true;
    return failed;
}

JOB(a1)
{
    bool watchdog = nmi_watchdog_runs();
    int failed = run_each();

    nmi_watchdog_set(watchdog);
    return failed;
}

/* At each tick the kernel's clock moves on by whole ticks of its own. How far the two kinds are
 * apart decides for a whole boot whether that takes 12 instructions more. A clocksource that is
 * chosen right after a tick puts them as far apart as they can be, in every boot. */
static void align_clock(void)
{
    char chosen[CLOCK_NAMES_MAX], *text = read_text(CLOCKS "current_clocksource");

    snprintf(chosen, sizeof(chosen), "%s", text == NULL ? "" : text);
    text = read_text(CLOCKS "available_clocksource");
    for (char *name; (name = next_word(&text, " \n")) != NULL;) {
        if (strncmp(chosen, name, strlen(name)) != 0) {
            write_text(CLOCKS "current_clocksource", name);
            wait_for_tick();
            write_text(CLOCKS "current_clocksource", chosen);
            return;
        }
    }
}

/* At each tick the kernel adds the fractions of the wall clock's second and of wall_to_monotonic
 * (update_vsyscall()). If the sum reaches a second, that takes some 20 instructions more.
 * wall_to_monotonic is fixed for a whole boot when the kernel reads the RTC. If its fraction is
 * almost a second, almost all ticks take these instructions. Here the wall clock gets the monotonic
 * clock's fraction, read just before: wall_to_monotonic keeps a fraction of some microseconds. */
static int align_wall_clock(void)
{
    struct timespec wall, monotonic;

    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    wall.tv_nsec = monotonic.tv_nsec;
    return clock_settime(CLOCK_REALTIME, &wall) == 0 ? 0 : errno;
}

/* One run differs from the next, natively too, by what the kernel does besides: which of its
 * timers are due at a tick, whether a period of the scheduler's has ended, where an object lies in
 * its slab. So each M has many runs, each in a region of its own, to take the least of. */
JOB(a1again)
{
    struct a1_plan plan = {.period = a1_periods[A1_RUNS - 1]};
    struct a1_result r;
    struct timespec start;
    int error = perf_lift_limits();

    align_clock();
    error = error != 0 ? error : align_wall_clock();
    error = error != 0 ? error : a1_run(&plan, &r);
    clock_gettime(CLOCK_MONOTONIC_COARSE, &start);
    for (unsigned n = 0; error == 0 && n < A1_AGAIN * A1_RUNS; n++) {
        if (n % A1_RUNS == 0)
            wait_until(&start, n / A1_RUNS * A1_ROUND_NS - TICK_NS / 2);
        plan.period = a1_periods[n % A1_RUNS];
        plan.region = REGION_A1_AGAIN + n;
        error = a1_run(&plan, &r);
        printf("a1again: region=%u M=%llu pmis=%lld nmis=%lld\n", plan.region,
               (unsigned long long)r.period, r.pmis, r.nmis);
    }
    return error != 0;
}

bool a1_print_table(void)
{
    if (!results_valid)
        return false;
    printf("A.1: %ld branches, one PMI every M of them\n", A1_BRANCHES);
    printf("%10s %10s %10s %12s %12s\n", "M", "PMIs", "expected", "branches", "time ns");
    for (size_t i = 0; i < A1_RUNS; i++) {
        const struct a1_result *r = &results[i];

        printf("%10llu %10lld %10lld %12lld %12lld\n", (unsigned long long)r->period, r->pmis,
               r->expected, r->count, r->nanoseconds);
    }
    return true;
}
