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
#include <sys/wait.h>
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
     {"node-loads:u", ACCESS_FLUSHES, ACCESS_FLUSHES + BY_CHANCE}},
};

/* Runs perf stat with these events; its lines, to be freed, or NULL. */
static char *perf_stat(const char *events, char *program, int *status)
{
    char *const command[] = {PERF, "stat", "-x", ";", "-o", OUTPUT, "-e", (char *)events, program,
                             NULL};
    pid_t child;

    *status = -1;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        execv(PERF, command);
        _exit(127);
    }
    if (child < 0 || waitpid(child, status, 0) != child) {
        printf("perf: error=\"cannot start " PERF "\"\n");
        return NULL;
    }
    return read_text(OUTPUT);
}

/* The count of an event, from the lines "COUNT;;EVENT;..."; -1: there is none. */
static long long count_of(const char *text, const char *event)
{
    size_t length = strlen(event);

    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *name = strstr(line, ";;");
        if (name != NULL && strncmp(name + 2, event, length) == 0 && name[2 + length] == ';') {
            return line[0] == '<' ? -1 : strtoll(line, NULL, 10);
        }
    }
    return -1;
}

static int exact_instructions(void)
{
    long long counted = -1;
    char *text, *rest = NULL;
    int status;

    text = perf_stat("instructions:u", "/loop", &status);
    for (char *line = text == NULL ? NULL : strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        printf("perf: output=\"%s\"\n", line);
        if (strstr(line, "instructions:u") != NULL) {
            counted = strtoll(line, NULL, 10);
        }
    }
    printf("perf: status=%d instructions=%lld expected=%lld\n", status, counted, LOOP_INSTRUCTIONS);
    return status != 0 || counted != LOOP_INSTRUCTIONS;
}

static int generalized(const struct known group[GROUP])
{
    char events[256] = "", *text;
    int status, failed;

    for (int i = 0; i < GROUP; i++) {
        size_t used = strlen(events);
        snprintf(events + used, sizeof(events) - used, "%s%s", i > 0 ? "," : "", group[i].event);
    }
    text = perf_stat(events, "/access", &status);
    failed = status != 0 || text == NULL;
    for (int i = 0; i < GROUP; i++) {
        long long count = text == NULL ? -1 : count_of(text, group[i].event);
        printf("perf: event=%s count=%lld least=%lld most=%lld\n", group[i].event, count,
               group[i].least, group[i].most);
        failed |= count < group[i].least || count > group[i].most;
    }
    return failed;
}

int job_perf(void)
{
    int failed;

    if (access(PERF, X_OK) != 0) {
        printf("perf: error=\"no " PERF " in this initramfs\"\n");
        return 1;
    }
    failed = exact_instructions();
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        failed |= generalized(known[i]);
    }
    return failed;
}
