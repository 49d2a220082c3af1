/* SPDX-License-Identifier: BSD-2-Clause
 * smp.c: the jobs that look at every processor: what is online and what the kernel complained of,
 * program A.1 on each, PMIs on all at once, the NMI watchdog of each, and the kernel's own NMIs
 * between processors (sysrq-l), also while all of them exit and take PMIs (storm). SDM Vol. 3,
 * "Local Vector Table", "Issuing Interprocessor Interrupts".
 */
#include "smp.h"

#include "a1.h"
#include "hypercall.h"
#include "payload.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALL_BRANCHES 400000ul
#define ALL_PERIOD 1000ul
#define SWITCHES 624 /* even: at the end NMIs are passed through again */
/* The watchdog's period is a second of the processor's clock, of which halted time is no part. */
#define WATCHDOG_SECONDS "1"
#define WATCHDOG_ROUNDS 30000000ul
#define SYSRQ_ROUNDS 20
#define SYSRQ_MILLISECONDS 3000
#define STORM_PERIOD 1000ul
#define STORM_BRANCHES 50ul /* between two CPUIDs */
#define ENDLESS (1ull << 60)
#define LOG_BYTES (512 * 1024)
#define SYSLOG_ACTION_READ_CLEAR 4
#define SYSLOG_ACTION_CLEAR 5

JOB(smp)
{
    static const char *const words[] = {
        "unchecked MSR", "not responding", "lockup",     "LOCKUP",       "rcu: INFO",
        "stall",         "Uhhuh",          "Dazed",      "WARNING: CPU", "BUG:",
        "Marking TSC",   "TSC sync",       "warp",       "perfevents:",  "took too long",
        "failed to",     "Firmware Bug",   "APIC error", "stuck",
    };
    char *text = read_text("/sys/devices/system/cpu/online");
    int lines;

    printf("boot: ticks=%llu\n", (unsigned long long)init_started);
    printf("smp: processors=%d configured=%ld online=%s", processors_online(),
           sysconf(_SC_NPROCESSORS_CONF), text == NULL ? "none\n" : text);
    lines = print_kernel_log("complaint", words, sizeof(words) / sizeof(words[0]));
    printf("smp: complaints=%d\n", lines);
    return 0;
}

/* Program A.1 on each processor, with the PMU of its kind: its periods in the regions
 * REGION_A1_SMP + 10 * cpu on. */
JOB(a1smp)
{
    int failed = 0, error = perf_lift_limits();

    for (int cpu = 0; error == 0 && cpu < processors_online(); cpu++) {
        struct a1_plan plan = {.period = a1_periods[A1_RUNS - 1]};
        const char *pmu = hybrid_pmu(cpu, &plan.pmu);
        struct a1_result r;

        error = pin(0, cpu);
        if (error == 0)
            error = a1_run(&plan, &r);
        for (unsigned i = 0; error == 0 && i < A1_RUNS; i++) {
            plan.period = a1_periods[i];
            plan.region = REGION_A1_SMP + 10 * (unsigned)cpu + i;
            error = a1_run(&plan, &r);
            printf("a1smp: cpu=%d pmu=%s region=%u M=%llu expected=%lld pmis=%lld nmis=%lld "
                   "count=%lld\n",
                   cpu, pmu == NULL ? "cpu" : pmu, plan.region, (unsigned long long)r.period,
                   r.expected, r.pmis, r.nmis, r.count);
            failed |= r.pmis != r.expected || r.nmis != r.expected;
        }
    }
    if (error != 0)
        printf("a1smp: error=\"%s\"\n", strerror(-error));
    return failed || error != 0;
}

/* In a child of the job: the load with its own sampling counter; never returns. */
static void sample_on(int cpu, int go, int switches, long long *count)
{
    bool failed = false;
    char byte;
    int fd;

    if (pin(0, cpu) != 0 || (fd = open_user_branches(ALL_PERIOD)) < 0 || read(go, &byte, 1) != 1)
        _exit(1);
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    spin_branches(ALL_BRANCHES / ((unsigned)switches + 1));
    for (int i = 0; i < switches; i++) {
        failed |= hyper_call(i % 2 == 0 ? HYPERCALL_NMI_PASSTHROUGH_OFF
                                        : HYPERCALL_NMI_PASSTHROUGH_ON) != 0;
        spin_branches(ALL_BRANCHES / ((unsigned)switches + 1));
    }
    *count = stop_counter(fd);
    _exit(failed || *count < 0);
}

static int sample_all(const char *job, int switches)
{
    long long pmis[2][PROCESSORS_MAX], nmis[2][PROCESSORS_MAX];
    int count = processors_online(), failed = 0, go[2];
    long long none[PROCESSORS_MAX] = {0};
    long long *counted = mmap(NULL, sizeof(none), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (perf_lift_limits() != 0 || pipe(go) != 0 || counted == MAP_FAILED) {
        printf("%s: error=\"cannot lift perf's limits\"\n", job);
        return 1;
    }
    interrupt_counts("PMI", pmis[0]);
    interrupt_counts("NMI", nmis[0]);
    fflush(stdout);
    for (int cpu = 0; cpu < count; cpu++)
        if (fork() == 0)
            sample_on(cpu, go[0], switches, &counted[cpu]);
    for (int cpu = 0; cpu < count; cpu++)
        failed |= write(go[1], "", 1) != 1;
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    interrupt_counts("PMI", pmis[1]);
    interrupt_counts("NMI", nmis[1]);
    close(go[0]);
    close(go[1]);
    for (int cpu = 0; cpu < count; cpu++)
        counted[cpu] /= ALL_PERIOD;
    printf("%s: switches=%d", job, switches);
    print_growth("expected", none, counted, count);
    print_growth("pmis", pmis[0], pmis[1], count);
    print_growth("nmis", nmis[0], nmis[1], count);
    printf(" failed=%d\n", failed);
    for (int cpu = 0; cpu < count; cpu++)
        failed |= pmis[1][cpu] - pmis[0][cpu] != counted[cpu];
    munmap(counted, sizeof(none));
    return failed;
}

JOB(pmiall) { return sample_all("pmiall", 0); }

/* Natively, or where user space may not, there is nothing to switch. */
JOB(switchall)
{
    bool can = hyper_present() && hyper_call(HYPERCALL_NMI_PASSTHROUGH_ON) == 0;

    return sample_all("switchall", can ? SWITCHES : 0);
}

/* Each processor's watchdog has to come while all of them are busy. */
JOB(watchdogs)
{
    long long nmis[2][PROCESSORS_MAX];
    int count = processors_online(), failed = 0;

    nmi_watchdog_set(true);
    write_text("/proc/sys/kernel/watchdog_thresh", WATCHDOG_SECONDS "\n");
    interrupt_counts("NMI", nmis[0]);
    for (int cpu = 0; cpu < count; cpu++)
        failed |= spin_on(cpu, WATCHDOG_ROUNDS) < 0;
    while (wait(NULL) > 0) {
    }
    interrupt_counts("NMI", nmis[1]);
    printf("watchdogs: enabled=%d", nmi_watchdog_runs());
    print_growth("nmis", nmis[0], nmis[1], count);
    printf("\n");
    for (int cpu = 0; cpu < count; cpu++)
        failed |= nmis[1][cpu] == nmis[0][cpu];
    return failed;
}

/* Marks in `seen` the processors whose backtrace is in the kernel's log, which is then emptied.
 * Returns lines that speak of an NMI nobody knows. */
static int take_backtraces(bool seen[PROCESSORS_MAX])
{
    static char log[LOG_BYTES];
    static const char mark[] = "NMI backtrace for cpu ";
    int length = klogctl(SYSLOG_ACTION_READ_CLEAR, log, sizeof(log) - 1);
    int unknown = 0;

    log[length > 0 ? length : 0] = '\0';
    for (char *at = log; (at = strstr(at, mark)) != NULL;) {
        long cpu = strtol(at + strlen(mark), &at, 10);

        if (cpu >= 0 && cpu < PROCESSORS_MAX)
            seen[cpu] = true;
    }
    for (char *at = log; (at = strstr(at, "unknown reason")) != NULL; at++)
        unknown++;
    return unknown;
}

static bool all_seen(const bool seen[], int count)
{
    for (int cpu = 0; cpu < count; cpu++)
        if (!seen[cpu])
            return false;
    return true;
}

/* A backtrace of all processors, asked for on this one: every other gets one NMI, and prints.
 * True when all of them did in time; adds lines that speak of an NMI nobody knows. */
static bool backtrace_from(int cpu, int count, int *unknown)
{
    bool seen[PROCESSORS_MAX] = {false};

    if (pin(0, cpu) != 0 || write_text("/proc/sysrq-trigger", "l") != 0)
        return false;
    for (int waited = 0; waited < SYSRQ_MILLISECONDS; waited++) {
        *unknown += take_backtraces(seen);
        if (all_seen(seen, count))
            return true;
        usleep(1000);
    }
    return false;
}

/* What backtraces need. 0 or -errno. */
static int backtraces_begin(void)
{
    nmi_watchdog_set(false);
    klogctl(SYSLOG_ACTION_CLEAR, NULL, 0);
    return write_text("/proc/sys/kernel/sysrq", "1\n");
}

/* From each processor in turn. */
JOB(sysrql)
{
    long long nmis[2][PROCESSORS_MAX];
    pid_t busy[PROCESSORS_MAX];
    int count = processors_online(), complete = 0, unknown = 0, failed = backtraces_begin() != 0;

    interrupt_counts("NMI", nmis[0]);
    for (int round = 0; round < SYSRQ_ROUNDS; round++) {
        /* Idle processors in the first half, busy ones in the second. */
        for (int cpu = 0; round == SYSRQ_ROUNDS / 2 && cpu < count; cpu++)
            busy[cpu] = spin_on(cpu, ENDLESS);
        complete += backtrace_from(round % count, count, &unknown);
    }
    for (int cpu = 0; cpu < count; cpu++)
        kill(busy[cpu], SIGKILL);
    while (wait(NULL) > 0) {
    }
    interrupt_counts("NMI", nmis[1]);
    printf("sysrql: rounds=%d complete=%d unknown=%d", SYSRQ_ROUNDS, complete, unknown);
    print_growth("nmis", nmis[0], nmis[1], count);
    printf("\n");
    return failed || complete != SYSRQ_ROUNDS || unknown != 0;
}

/* In a child of the job `storm`: CPUIDs and sampled branches until told to end; never returns. */
static void exit_and_sample(int cpu, const volatile bool *over, long long *count)
{
    int fd;

    if (pin(0, cpu) != 0 || (fd = open_user_branches(STORM_PERIOD)) < 0)
        _exit(1);
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    while (!*over) {
        cpuid(0, 0);
        spin_branches(STORM_BRANCHES);
    }
    *count = stop_counter(fd);
    _exit(*count < 0);
}

/* PMIs and backtraces' NMIs on processors that exit all the time, where an NMI that nobody knows
 * is a panic: no NMI may be lost, or come once too often. */
JOB(storm)
{
    struct shared {
        bool over;
        long long counts[PROCESSORS_MAX];
    } *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long long pmis[2][PROCESSORS_MAX], none[PROCESSORS_MAX] = {0};
    int count = processors_online(), complete = 0, unknown = 0, failed;

    if (s == MAP_FAILED || perf_lift_limits() != 0 || backtraces_begin() != 0 ||
        write_text("/proc/sys/kernel/unknown_nmi_panic", "1\n") != 0) {
        printf("storm: error=\"cannot set the kernel up\"\n");
        return 1;
    }
    interrupt_counts("PMI", pmis[0]);
    fflush(stdout);
    for (int cpu = 0; cpu < count; cpu++)
        if (fork() == 0)
            exit_and_sample(cpu, &s->over, &s->counts[cpu]);
    for (int round = 0; round < SYSRQ_ROUNDS; round++)
        complete += backtrace_from(round % count, count, &unknown);
    s->over = true;
    failed = complete != SYSRQ_ROUNDS || unknown != 0;
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    interrupt_counts("PMI", pmis[1]);
    for (int cpu = 0; cpu < count; cpu++) {
        s->counts[cpu] /= STORM_PERIOD;
        failed |= s->counts[cpu] == 0 || s->counts[cpu] != pmis[1][cpu] - pmis[0][cpu];
    }
    printf("storm: rounds=%d complete=%d unknown=%d", SYSRQ_ROUNDS, complete, unknown);
    print_growth("expected", none, s->counts, count);
    print_growth("pmis", pmis[0], pmis[1], count);
    printf("\n");
    munmap(s, sizeof(*s));
    return failed;
}
