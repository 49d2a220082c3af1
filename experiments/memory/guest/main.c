/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c: memtrace, the guest's side of PMUvisor's memory trace: starts a program with its accesses
 * traced, or traces physical memory, and writes what comes to a file. README.md says how to use it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hypercall.h"
#include "rings.h"
#include "target.h"
#include "trace_ring.h"

#define POLL_NS_MAX 10000000L
#define POLL_NS_MIN 100000L
#define FILLED_PERCENT 25 /* of a ring between two looks: above it, look sooner */
/* The half of the addresses that is user space's, with 4 levels. */
#define USER_BYTES (1ULL << 47)

static const char usage[] =
    "usage: memtrace [--writes|--reads|--all|--devices|--pages] [RANGE] [--processor N] -o FILE -- "
    "PROGRAM ARGUMENTS\n"
    "       memtrace [--writes|--reads|--all|--devices|--pages] --physical A-B --seconds N -o "
    "FILE\n"
    "       memtrace --stores PERIOD -o FILE -- PROGRAM ARGUMENTS\n"
    "RANGE: --range A-B      of the program's addresses; without it, all of its user space\n"
    "       --kernel         the kernel's accesses for it as well\n"
    "       --physical A-B   physical addresses, of all processors\n"
    "A and B (the first address behind it) are numbers as C has them; +N for B: N bytes.\n"
    "--stores: by perf and PEBS, one store in PERIOD; FILE is perf's.\n";

struct wanted {
    uint32_t mode;
    uint64_t first, end; /* end 0: not said */
    bool physical, kernel;
    int processor; /* -1: the first one that may be used */
    long seconds;
    const char *stores, *path;
    char **command;
};

static volatile sig_atomic_t interrupted;

static void note_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* ---- what is wanted ---- */

static bool number(const char *text, uint64_t *out, char **rest)
{
    errno = 0;
    *out = strtoull(text, rest, 0);
    return errno == 0 && *rest != text && *text != '-';
}

/* A-B, or A+N. */
static bool take_range(const char *text, struct wanted *w)
{
    char *rest;

    if (!number(text, &w->first, &rest) || (*rest != '-' && *rest != '+'))
        return false;
    bool length = *rest == '+';
    if (!number(rest + 1, &w->end, &rest) || *rest != '\0')
        return false;
    if (length)
        w->end += w->first;
    return w->end > w->first;
}

static bool take_count(const char *text, long *out)
{
    char *rest;
    uint64_t value;

    if (!number(text, &value, &rest) || *rest != '\0' || value > INT32_MAX)
        return false;
    *out = (long)value;
    return true;
}

/* Takes the option at argv[*at], and steps over its value. */
static bool take_option(struct wanted *w, char **argv, int *at)
{
    const char *name = argv[*at], *value = argv[*at + 1];
    long count;

    if (strcmp(name, "--writes") == 0)
        w->mode = MEMTRACE_WRITES;
    else if (strcmp(name, "--reads") == 0)
        w->mode = MEMTRACE_READS;
    else if (strcmp(name, "--all") == 0)
        w->mode = MEMTRACE_ALL;
    else if (strcmp(name, "--devices") == 0)
        w->mode = MEMTRACE_DEVICES;
    else if (strcmp(name, "--pages") == 0)
        w->mode = MEMTRACE_PAGES;
    else if (strcmp(name, "--kernel") == 0)
        w->kernel = true;
    else {
        if (value == NULL)
            return false;
        ++*at;
        if (strcmp(name, "--physical") == 0)
            return (w->physical = take_range(value, w));
        if (strcmp(name, "--range") == 0)
            return take_range(value, w);
        if (strcmp(name, "-o") == 0)
            return (w->path = value) != NULL;
        if (strcmp(name, "--stores") == 0)
            return take_count(w->stores = value, &count) && count > 0;
        if (strcmp(name, "--seconds") == 0)
            return take_count(value, &w->seconds) && w->seconds > 0;
        if (strcmp(name, "--processor") != 0 || !take_count(value, &count))
            return false;
        w->processor = (int)count;
    }
    return true;
}

static bool take_all(struct wanted *w, int argc, char **argv)
{
    *w = (struct wanted){.mode = MEMTRACE_WRITES, .processor = -1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            w->command = argv[i + 1] != NULL ? &argv[i + 1] : NULL;
            break;
        }
        if (!take_option(w, argv, &i))
            return false;
    }
    if (w->path == NULL || (w->kernel && w->end != 0))
        return false;
    if (w->stores != NULL)
        return w->command != NULL && w->end == 0 && !w->kernel;
    return w->command != NULL ? w->seconds == 0 : w->physical && w->seconds != 0;
}

/* ---- the run ---- */

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Until the program is about to end, or the time is over, or a signal came. Looks sooner where the
 * rings fill faster. */
static int drain_until(struct target *target, long seconds)
{
    struct timespec pause = {.tv_nsec = POLL_NS_MIN};
    double end = now() + (double)seconds;
    unsigned filled;

    while (!interrupted) {
        if (rings_drain(&filled) != 0 || (target != NULL && target_look(target) != 0))
            return 1;
        if (target != NULL ? target->ended : now() >= end)
            return 0;
        if (filled > FILLED_PERCENT && pause.tv_nsec / 2 >= POLL_NS_MIN)
            pause.tv_nsec /= 2;
        else if (filled <= FILLED_PERCENT && pause.tv_nsec * 2 <= POLL_NS_MAX)
            pause.tv_nsec *= 2;
        nanosleep(&pause, NULL);
    }
    return 0;
}

static struct memory_request request_of(const struct wanted *w)
{
    struct memory_request request = {.mode = w->mode,
                                     .first = w->first,
                                     .bytes = w->end - w->first,
                                     .cr3 = w->physical ? 0 : TRACE_THIS_CR3};

    if (w->end == 0 && !w->kernel)
        request.bytes = USER_BYTES;
    return request;
}

/* The processors whose rings are read: the program's own, or with physical addresses all. */
static int add_processors(const struct wanted *w, const cpu_set_t *all)
{
    for (int processor = 0; processor < CPU_SETSIZE; processor++)
        if (CPU_ISSET(processor, all) && (w->physical || processor == w->processor) &&
            rings_add(processor) != 0)
            return 1;
    return 0;
}

/* The reader stays out of the program's way where there is another processor. */
static void leave_processor(const struct wanted *w, const cpu_set_t *all)
{
    cpu_set_t others = *all;

    CPU_CLR(w->processor, &others);
    if (w->command == NULL || CPU_COUNT(&others) == 0)
        others = *all;
    (void)sched_setaffinity(0, sizeof(others), &others);
}

static int run(struct wanted *w, const cpu_set_t *all)
{
    const struct memory_request off = {.mode = MEMTRACE_OFF};
    struct memory_request request = request_of(w);
    struct target target = {.processor = w->processor};
    int failed = 0;

    if (!w->physical)
        target.request = request;
    if (w->command != NULL)
        failed = target_start(&target, w->command);
    if (!failed && w->physical)
        failed = rings_turn(&request);
    leave_processor(w, all);
    if (!failed && w->command != NULL)
        failed = target_go(&target);
    if (!failed)
        failed = drain_until(w->command != NULL ? &target : NULL, w->seconds);
    failed |= rings_turn(&off); /* first: what comes after it is nobody's */
    failed |= rings_drain(NULL);
    failed |= rings_finish();
    if (target.pid != 0 && (failed || interrupted))
        (void)kill(target.pid, SIGKILL);
    target_wait(&target);
    if (w->command != NULL && !failed && !interrupted && target.status != 0)
        say("the program ended with %d",
            WIFEXITED(target.status) ? WEXITSTATUS(target.status) : -WTERMSIG(target.status));
    return failed;
}

/* The same axis, coarser: perf samples stores with their addresses. */
static int sample_stores(struct wanted *w)
{
    char *words[16] = {"perf", "record",
                       "-q",   "-d",
                       "-e",   "cpu/mem-stores/upp",
                       "-c",   (char *)(uintptr_t)w->stores,
                       "-o",   (char *)(uintptr_t)w->path,
                       "--"};
    int count = 11, more = 0;

    while (w->command[more] != NULL)
        more++;
    char **all = calloc((size_t)(count + more + 1), sizeof(*all));
    if (all == NULL)
        return say("%s", strerror(errno));
    memcpy(all, words, (size_t)count * sizeof(*all));
    memcpy(all + count, w->command, (size_t)more * sizeof(*all));
    execvp("perf", all);
    int error = errno;
    free(all);
    return say("perf: %s; wanted to sample stores by it: install linux-perf", strerror(error));
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = note_signal};
    struct wanted w;
    cpu_set_t all;

    if (!take_all(&w, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    if (w.stores != NULL)
        return sample_stores(&w);
    if (!pmuvisor_there())
        return say("CPUID leaf 0x40000000 names no PMUvisor; nothing here traces memory");
    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return say("sched_getaffinity: %s", strerror(errno));
    for (int i = 0; w.processor < 0 && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all))
            w.processor = i;
    if (w.processor >= CPU_SETSIZE || !CPU_ISSET(w.processor, &all))
        return say("processor %d: not one that this may run on", w.processor);
    if (add_processors(&w, &all) != 0 || rings_file(w.path, w.mode) != 0)
        return 1;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return run(&w, &all);
}
