/* SPDX-License-Identifier: BSD-2-Clause
 * overflow.c: PMIs of several threads, after PAPI's test overflow_pthreads as perfctr-xen's section
 * 5.1.2 uses it: each thread has a counter with a period, works for PERIODS of them, and gets a
 * signal for each overflow. The signal must reach the thread that caused it, as often as its count
 * holds the period. perf_event_open(2), "Overflow handling"; fcntl(2), F_SETOWN_EX and F_SETSIG.
 */
#define _GNU_SOURCE /* F_SETOWN_EX, F_SETSIG */
#include "accuracy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OVERFLOW_ITEM "overflow.%s.of%u.t%u" /* event, threads, thread */
#define PERIODS 300u                         /* sampling periods, as in the paper */
#define PERIOD_PER_SCALE 2003u
#define INSTRUCTIONS_PER_ROUND 4u
/* A different one for each thread, so that a signal for another thread is seen. */
#define MORE_PERIODS_OF_THREAD(thread) ((thread) * 10u)
#define THREADS_TEXT_FACTOR 10u

struct sampled {
    const char *name;
    uint32_t type;
    uint64_t config;
    uint64_t per_round; /* of them in each round of the loop */
    bool fp;            /* the loop is fp_rounds() */
};

/* FP_ARITH_INST_RETIRED.SCALAR_DOUBLE, event C7H with umask 01H: Intel's event lists since
 * Broadwell. No bit of CPUID tells of it, so that counts_additions() tries it. */
#define FP_ARITH_SCALAR_DOUBLE 0x01C7
#define TRIED_ADDITIONS 1000u

static const struct sampled sampled_events[] = {
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, INSTRUCTIONS_PER_ROUND, false},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, INSTRUCTIONS_PER_ROUND, false},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 1, false},
    {"fp", PERF_TYPE_RAW, FP_ARITH_SCALAR_DOUBLE, 1, true},
};

static const unsigned threads_of_run[] = {1, 2, 4};

struct overflowing {
    const struct sampled *event;
    uint64_t period;
    uint64_t periods;
    uint64_t count;
    uint64_t overflows;
};

/* Of the thread that the signal reached, whoever's counter it was. */
static _Thread_local volatile uint64_t signals;

static void on_overflow(int number)
{
    (void)number;
    signals++;
}

/* The signal goes to this thread, not to any of the process. */
static bool signals_to_this_thread(int fd)
{
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = (pid_t)syscall(SYS_gettid)};

    return fcntl(fd, F_SETOWN_EX, &owner) == 0 && fcntl(fd, F_SETSIG, SIGRTMIN) == 0 &&
           fcntl(fd, F_SETFL, O_ASYNC) == 0;
}

static void rounds_of(const struct sampled *event, uint64_t rounds)
{
    if (event->fp)
        fp_rounds(rounds);
    else
        loop_rounds(rounds);
}

/* This processor's event is what the table takes it for. */
static bool counts_additions(const struct sampled *event)
{
    struct perf_event_attr attr = {
        .type = event->type, .size = sizeof(attr), .config = event->config, .exclude_kernel = 1};
    int fd = perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    uint64_t before = 0;
    uint64_t after = 0;

    if (fd < 0)
        return false;
    if (read(fd, &before, sizeof(before)) == sizeof(before)) {
        fp_rounds(TRIED_ADDITIONS);
        if (read(fd, &after, sizeof(after)) != sizeof(after))
            after = before;
    }
    close(fd);
    return after - before == TRIED_ADDITIONS;
}

static bool overflow_in_thread(struct thread_work *own)
{
    struct overflowing *o = own->argument;
    struct perf_event_attr attr = {
        .type = o->event->type,
        .size = sizeof(attr),
        .config = o->event->config,
        .sample_period = o->period,
        .wakeup_events = 1,
        .exclude_kernel = 1,
        .disabled = 1,
    };
    int fd = perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    bool done = fd >= 0 && signals_to_this_thread(fd);
    int error = errno;

    threads_meet();
    if (done) {
        signals = 0;
        ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
        rounds_of(o->event, o->periods * o->period / o->event->per_round);
        ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
        done = read(fd, &o->count, sizeof(o->count)) == sizeof(o->count);
        error = errno;
        o->overflows = signals;
    }
    if (fd >= 0)
        close(fd);
    return done ||
           failed("sampling %s: %s; wanted a PMU that counts it", o->event->name, strerror(error));
}

static bool overflow_run(unsigned number, unsigned threads, const struct options *options)
{
    const struct sampled *event = &sampled_events[number];
    struct thread_work work[THREADS_MAX] = {0};
    struct overflowing own[THREADS_MAX];
    uint32_t region = REGION_OVERFLOWS + number + THREADS_TEXT_FACTOR * threads;

    if (event->fp && !counts_additions(event)) {
        for (unsigned t = 0; t < threads; t++) {
            print_skip("event C7H, umask 01H, does not count additions of doubles here",
                       OVERFLOW_ITEM, event->name, threads, t + 1);
        }
        return true;
    }
    for (unsigned t = 0; t < threads; t++) {
        own[t] = (struct overflowing){
            .event = event,
            .period = PERIOD_PER_SCALE * options->scale,
            .periods = PERIODS + MORE_PERIODS_OF_THREAD(t),
        };
        work[t].work = overflow_in_thread;
        work[t].argument = &own[t];
    }
    if (!threads_run(work, threads, PLACE_MIGRATED, region))
        return false;
    print_region(region, 1, "overflow.%s.of%u", event->name, threads);
    for (unsigned t = 0; t < threads; t++) {
        print_value("overflows", own[t].overflows, OVERFLOW_ITEM, event->name, threads, t + 1);
        print_value("expected", own[t].count / own[t].period, OVERFLOW_ITEM, event->name, threads,
                    t + 1);
        print_value("count", own[t].count, OVERFLOW_ITEM, event->name, threads, t + 1);
    }
    return true;
}

bool overflows(const struct options *options)
{
    struct sigaction action = {.sa_handler = on_overflow, .sa_flags = SA_RESTART};

    if (sigaction(SIGRTMIN, &action, NULL) != 0)
        return failed("sigaction: %s", strerror(errno));
    for (unsigned i = 0; i < sizeof(sampled_events) / sizeof(sampled_events[0]); i++) {
        for (unsigned n = 0; n < sizeof(threads_of_run) / sizeof(threads_of_run[0]); n++)
            if (!overflow_run(i, threads_of_run[n], options))
                return false;
    }
    return true;
}
