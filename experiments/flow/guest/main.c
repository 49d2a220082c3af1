/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c: flowtrace, the guest's side of PMUvisor's flow trace: turns it on, drains the rings
 * of all processors to a file, and turns it back to what it was. Reading takes no exit. README.md
 * says how to use it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hypercall.h"
#include "hypervisor.h"
#include "names.h"
#include "ring_reader.h"

#define PROCESSORS_MAX 512
#define RECORDS_AT_ONCE 4096
#define CHUNKS_MAX 1024  /* of one look: a writer that is faster has to be left at some time */
#define POLL_NS 20000000 /* a ring of 1 MiB holds 32,768 records: 1.6 million a second */

static const char usage[] =
    "usage: flowtrace record FILE [--level exits|flow] [--seconds N | -- COMMAND ...]\n"
    "       flowtrace names FILE     the names of the processes, as JSON\n"
    "       flowtrace status         each processor's level, and how many records there were\n";

static struct traced {
    int processor;
    uint64_t level; /* that it had */
    struct ring_reader reader;
} traced[PROCESSORS_MAX];
static int traced_count;
static volatile sig_atomic_t interrupted;

static int say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int say(const char *format, ...)
{
    va_list arguments;

    fputs("flowtrace: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return 1;
}

/* ---- processors ---- */

static bool go_to(int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

static int open_ring(int memory, int processor, const cpu_set_t *all)
{
    struct traced *t = &traced[traced_count];
    uint64_t ring, bytes;

    if (!go_to(processor))
        return say("processor %d: %s", processor, strerror(errno));
    int64_t level = hypercall_trace(TRACE_ASK, &ring, &bytes);
    (void)sched_setaffinity(0, sizeof(*all), all);
    if (level < 0)
        return say("processor %d: the hypercall gave %ld: %s", processor, (long)level,
                   hypercall_error(level));
    const void *there = mmap(NULL, bytes, PROT_READ, MAP_SHARED, memory, (off_t)ring);
    if (there == MAP_FAILED)
        return say(
            "processor %d: /dev/mem does not show its ring: %s; it is reserved memory: is the "
            "kernel locked down?",
            processor, strerror(errno));
    if (!ring_reader_open(&t->reader, there, bytes))
        return say("processor %d: found no ring of version %d; use the flowtrace of this PMUvisor",
                   processor, TRACE_RING_VERSION);
    t->processor = processor;
    t->level = (uint64_t)level;
    traced_count++;
    return 0;
}

static int open_rings(cpu_set_t *all)
{
    if (!pmuvisor_there())
        return say("CPUID leaf 0x40000000 names no PMUvisor; there is nothing to read here");
    if (sched_getaffinity(0, sizeof(*all), all) != 0)
        return say("sched_getaffinity: %s", strerror(errno));
    int memory = open("/dev/mem", O_RDONLY | O_CLOEXEC);
    if (memory < 0)
        return say("/dev/mem: %s; wanted to read the rings there: run it as root", strerror(errno));
    for (int processor = 0; processor < CPU_SETSIZE && traced_count < PROCESSORS_MAX; processor++)
        if (CPU_ISSET(processor, all) && open_ring(memory, processor, all) != 0)
            return 1;
    close(memory);
    return 0;
}

/* Turns all to `level`, or, with TRACE_ASK, back to what each had. */
static int turn(uint64_t level, const cpu_set_t *all)
{
    int failed = 0;

    for (int i = 0; i < traced_count; i++) {
        uint64_t ring, bytes;

        failed |= !go_to(traced[i].processor);
        int64_t was = hypercall_trace(level == TRACE_ASK ? traced[i].level : level, &ring, &bytes);
        if (was < 0)
            failed |= say("processor %d: the hypercall gave %ld: %s", traced[i].processor,
                          (long)was, hypercall_error(was));
    }
    (void)sched_setaffinity(0, sizeof(*all), all);
    return failed;
}

/* ---- record ---- */

/* All that is there now. */
static int drain(FILE *out)
{
    static struct trace_record records[RECORDS_AT_ONCE];

    for (int i = 0; i < traced_count; i++) {
        struct trace_chunk chunk;
        unsigned chunks = 0;

        do {
            chunk = ring_reader_take(&traced[i].reader, records, RECORDS_AT_ONCE);
            if ((chunk.count != 0 || chunk.lost != 0) && !trace_file_chunk(out, &chunk, records))
                return say("the file: %s", strerror(errno));
        } while (chunk.count != 0 && ++chunks < CHUNKS_MAX);
    }
    return 0;
}

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
static int drain_until(FILE *out, pid_t child, long seconds)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    struct timespec now, end;
    int status = 0;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    while (!interrupted) {
        if (drain(out) != 0)
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
    uint64_t lost = 0;
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
        failed = drain_until(out, child, seconds);
    failed |= turn(TRACE_ASK, &all); /* first: what comes after it is nobody's */
    failed |= drain(out);
    if (fclose(out) != 0)
        failed = say("%s: %s", path, strerror(errno));
    for (int i = 0; i < traced_count; i++)
        lost += traced[i].reader.lost;
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
