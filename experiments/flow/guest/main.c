/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c: flowtrace, the guest's side of PMUvisor's flow trace: turns it on, drains the rings
 * of all processors to a file, and turns it back to what it was. Reading takes no exit. README.md
 * says how to use it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hypercall.h"
#include "hypervisor.h"
#include "names.h"
#include "traced_rings.h"

#define POLL_NS 20000000 /* a ring of 1 MiB holds 32,768 records: 1.6 million a second */

static const char usage[] =
    "usage: flowtrace record FILE [--level exits|flow] [--seconds N | -- COMMAND ...]\n"
    "       flowtrace names FILE     the names of the processes, as JSON\n"
    "       flowtrace status         each processor's level, and how many records there were\n";

static volatile sig_atomic_t interrupted;

/* ---- processors ---- */

static int open_ring(int processor, const cpu_set_t *all)
{
    uint64_t ring, bytes;

    if (!run_on(processor))
        return say("processor %d: %s", processor, strerror(errno));
    int64_t level = hypercall_trace(TRACE_ASK, &ring, &bytes);
    (void)sched_setaffinity(0, sizeof(*all), all);
    if (level < 0)
        return say("processor %d: the hypercall gave %ld: %s", processor, (long)level,
                   hypercall_error(level));
    return traced_add(processor, (uint64_t)level, ring, bytes);
}

static int open_rings(cpu_set_t *all)
{
    if (!pmuvisor_there())
        return say("CPUID leaf 0x40000000 names no PMUvisor; there is nothing to read here");
    if (sched_getaffinity(0, sizeof(*all), all) != 0)
        return say("sched_getaffinity: %s", strerror(errno));
    for (int processor = 0; processor < CPU_SETSIZE && traced_count < PROCESSORS_MAX; processor++)
        if (CPU_ISSET(processor, all) && open_ring(processor, all) != 0)
            return 1;
    return 0;
}

/* Turns all to `level`, or, with TRACE_ASK, back to what each had. */
static int turn(uint64_t level, const cpu_set_t *all)
{
    int failed = 0;

    for (int i = 0; i < traced_count; i++) {
        uint64_t ring, bytes;

        failed |= !run_on(traced[i].processor);
        int64_t was = hypercall_trace(level == TRACE_ASK ? traced[i].level : level, &ring, &bytes);
        if (was < 0)
            failed |= say("processor %d: the hypercall gave %ld: %s", traced[i].processor,
                          (long)was, hypercall_error(was));
    }
    (void)sched_setaffinity(0, sizeof(*all), all);
    return failed;
}

/* ---- record ---- */

static void note_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static pid_t start(char **command)
{
    pid_t child = fork();

    if (child == 0) {
        execvp(command[0], command);
        say("%s: %s", command[0], strerror(errno));
        _exit(127);
    }
    return child;
}

/* Until the command has ended, or the time is over, or a signal came. */
static int drain_until(FILE *out, const char *path, pid_t child, long seconds)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    struct timespec now, end;
    int status = 0;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    while (!interrupted) {
        if (traced_drain(out, path, NULL) != 0)
            return 1;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (child > 0 ? waitpid(child, &status, WNOHANG) == child
                      : seconds > 0 && now.tv_sec + 1e-9 * (double)now.tv_nsec >=
                                           end.tv_sec + 1e-9 * (double)end.tv_nsec)
            break;
        nanosleep(&pause, NULL);
    }
    if (child > 0 && !interrupted && status != 0)
        say("the command ended with %d",
            WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    return 0;
}

static int record(const char *path, uint64_t level, long seconds, char **command)
{
    cpu_set_t all;
    struct sigaction action = {.sa_handler = note_signal};

    if (open_rings(&all) != 0)
        return 1;
    FILE *out = fopen(path, "we");
    if (out == NULL || !trace_file_head(out, (const struct trace_ring *)traced[0].reader.ring,
                                        (uint32_t)level, (uint32_t)traced_count))
        return say("%s: %s", path, strerror(errno));
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int failed = turn(level, &all);
    pid_t child = failed || command == NULL ? 0 : start(command);
    if (child < 0)
        failed = say("fork: %s", strerror(errno));
    if (!failed)
        failed = drain_until(out, path, child, seconds);
    failed |= turn(TRACE_ASK, &all); /* first: what comes after it is nobody's */
    failed |= traced_drain(out, path, NULL);
    if (fclose(out) != 0)
        failed = say("%s: %s", path, strerror(errno));
    uint64_t lost = traced_lost();
    printf("flowtrace: processors=%d lost=%lu\n", traced_count, (unsigned long)lost);
    if (lost != 0)
        say("%lu records were overwritten before they were read; start PMUvisor with a larger "
            "trace_ring=",
            (unsigned long)lost);
    return failed;
}

/* ---- the others ---- */

static int names(const char *path)
{
    FILE *out = fopen(path, "we");

    if (out == NULL || !names_write(out) || fclose(out) != 0)
        return say("%s: %s", path, strerror(errno));
    return 0;
}

static int status(void)
{
    static const char *const levels[] = {"off", "exits", "flow"};
    cpu_set_t all;

    if (open_rings(&all) != 0)
        return 1;
    for (int i = 0; i < traced_count; i++) {
        const volatile struct trace_ring *ring = traced[i].reader.ring;
        printf("flowtrace: processor=%d apic_id=%u level=%s written=%lu capacity=%lu\n",
               traced[i].processor, ring->apic_id,
               traced[i].level < 3 ? levels[traced[i].level] : "unknown",
               (unsigned long)ring->written, (unsigned long)ring->capacity);
    }
    return 0;
}

static int wrong(void)
{
    fputs(usage, stderr);
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t level = TRACE_FLOW;
    long seconds = 0;
    int i = 3;

    if (argc == 2 && strcmp(argv[1], "status") == 0)
        return status();
    if (argc == 3 && strcmp(argv[1], "names") == 0)
        return names(argv[2]);
    if (argc < 3 || strcmp(argv[1], "record") != 0)
        return wrong();
    for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
        char *rest = NULL;
        if (strcmp(argv[i], "--level") == 0 && strcmp(argv[i + 1], "exits") == 0)
            level = TRACE_EXITS;
        else if (strcmp(argv[i], "--level") == 0 && strcmp(argv[i + 1], "flow") == 0)
            level = TRACE_FLOW;
        else if (strcmp(argv[i], "--seconds") != 0 ||
                 (seconds = strtol(argv[i + 1], &rest, 10)) <= 0 || *rest != '\0')
            return wrong();
    }
    if (i < argc && (strcmp(argv[i], "--") != 0 || i + 1 == argc || seconds != 0))
        return wrong();
    return record(argv[2], level, seconds, i < argc ? &argv[i + 1] : NULL);
}
