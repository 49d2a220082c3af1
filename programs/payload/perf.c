/* SPDX-License-Identifier: BSD-2-Clause
 * perf.c: the job `perf`: Debian's own perf counts the user instructions of /loop, and perf's
 * generalized events of /access, whose numbers are known. Only the larger initramfs has perf; in
 * the small one the job fails and says so.
 */
#include "payload.h"
#include "smp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PERF "/usr/bin/perf"
#define OUTPUT "/perf.out"

/* access.asm */
#define ACCESS_LOADS (3ll * ACCESS_ROUNDS + ACCESS_FLUSHES)
#define ACCESS_STORES (3ll * ACCESS_ROUNDS)
#define ACCESS_BRANCHES (1ll * ACCESS_ROUNDS + ACCESS_FLUSHES + 1)
/* The two loops' first and last branches; and what an interrupt between them may cost. */
#define ACCESS_MISPREDICTED 4
#define BY_CHANCE 64

struct known {
    const char *event;
    long long least, most;
};

/* One run of perf for each: no more events than there are counters. */
#define GROUP 4
static const struct known known[][GROUP] = {
    {{"L1-dcache-loads:u", ACCESS_LOADS, ACCESS_LOADS},
     {"L1-dcache-stores:u", ACCESS_STORES, ACCESS_STORES},
     {"dTLB-loads:u", ACCESS_LOADS, ACCESS_LOADS},
     {"dTLB-stores:u", ACCESS_STORES, ACCESS_STORES}},
    {{"branches:u", ACCESS_BRANCHES, ACCESS_BRANCHES},
     {"branch-loads:u", ACCESS_BRANCHES, ACCESS_BRANCHES},
     {"branch-misses:u", ACCESS_MISPREDICTED, ACCESS_MISPREDICTED + BY_CHANCE},
     {"branch-load-misses:u", ACCESS_MISPREDICTED, ACCESS_MISPREDICTED + BY_CHANCE}},
    {{"L1-dcache-load-misses:u", ACCESS_FLUSHES, ACCESS_FLUSHES + BY_CHANCE},
     {"LLC-loads:u", ACCESS_FLUSHES, ACCESS_FLUSHES + BY_CHANCE},
     {"LLC-load-misses:u", ACCESS_FLUSHES, ACCESS_FLUSHES + BY_CHANCE},
     {"cache-misses:u", ACCESS_FLUSHES, ACCESS_FLUSHES + BY_CHANCE}},
    {{"LLC-stores:u", 0, BY_CHANCE},
     {"LLC-store-misses:u", 0, BY_CHANCE},
     {"cache-references:u", ACCESS_FLUSHES, ACCESS_FLUSHES + BY_CHANCE},
     {"iTLB-load-misses:u", 0, 0}},
    /* There is one node; and of TLBs and instruction caches the model has none. */
    {{"node-loads:u", ACCESS_FLUSHES, ACCESS_FLUSHES + BY_CHANCE},
     {"node-load-misses:u", 0, 0},
     {"dTLB-load-misses:u", 0, 0},
     {"L1-icache-load-misses:u", 0, 0}},
};

#define LINES 16

/* Runs perf stat with these events; its output, or NULL. */
static char *perf_stat(const char *events, char *program, int *status)
{
    char *const command[] = {PERF,   "stat", "-x",           ";",     "-o",
                             OUTPUT, "-e",   (char *)events, program, NULL};

    *status = run_program(NULL, command);
    return read_text(OUTPUT);
}

/* Splits the output of perf into lines, prints each. */
static int split(char *text, char *lines[], int most)
{
    int count = 0;

    for (char *line; count < most && (line = next_word(&text, "\n")) != NULL;) {
        printf("perf: output=\"%s\"\n", line);
        lines[count++] = line;
    }
    return count;
}

/* The count of an event, from the lines "COUNT;UNIT;EVENT;..."; -1: there is none. With some events
 * perf leaves the modifier ":u" out. */
static long long count_of(char *const lines[], int count, const char *event)
{
    size_t length = strcspn(event, ":");

    for (int i = 0; i < count; i++) {
        const char *name = strchr(lines[i], ';');
        name = name == NULL ? NULL : strchr(name + 1, ';');
        if (name != NULL && strncmp(name + 1, event, length) == 0 &&
            (name[1 + length] == ';' || name[1 + length] == ':')) {
            return lines[i][0] == '<' ? -1 : strtoll(lines[i], NULL, 10);
        }
    }
    return -1;
}

static int exact_instructions(void)
{
    char *lines[LINES];
    int status;
    int count = split(perf_stat("instructions:u", "/loop", &status), lines, LINES);
    long long counted = count_of(lines, count, "instructions:u");

    printf("perf: status=%d instructions=%lld expected=%lld\n", status, counted, LOOP_INSTRUCTIONS);
    return status != 0 || counted != LOOP_INSTRUCTIONS;
}

static int generalized(const struct known group[GROUP])
{
    char events[256] = "", *lines[LINES];
    int status, count, failed;

    for (int i = 0; i < GROUP; i++) {
        size_t used = strlen(events);
        snprintf(events + used, sizeof(events) - used, "%s%s", i > 0 ? "," : "", group[i].event);
    }
    count = split(perf_stat(events, "/access", &status), lines, LINES);
    failed = status != 0;
    for (int i = 0; i < GROUP; i++) {
        long long counted = count_of(lines, count, group[i].event);
        printf("perf: event=%s count=%lld least=%lld most=%lld\n", group[i].event, counted,
               group[i].least, group[i].most);
        failed |= counted < group[i].least || counted > group[i].most;
    }
    return failed;
}

JOB(perf)
{
    int failed;

    if (access(PERF, X_OK) != 0) {
        printf("perf: error=\"no " PERF " in this initramfs\"\n");
        return 1;
    }
    failed = exact_instructions();
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        failed |= generalized(known[i]);
    return failed;
}
