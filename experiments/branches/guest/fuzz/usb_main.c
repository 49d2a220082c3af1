/* SPDX-License-Identifier: BSD-2-Clause
 * usb_main.c: branchusb, the experiment of the thesis's Table 4.8 with its own kind of drivers: USB
 * devices (usb.h). It runs LIMIT cases of each driver with the kernel's branches as feedback, then
 * the same cases in the other ways below, for the price of a case. Region of the emulator's ledger:
 * REGION + WAYS * target + way. Before that it hands over the lists of two cases, each in a region
 * of its own from REGION_TRUTH on.
 * The kernel command line's word pmv.branchusb=LIMIT[,HOW]. HOW `blind`: untraced and without
 * feedback only, for a kernel that the module refuses. `hub`: each probe runs in the hub's thread,
 * as without this experiment; `drop`: a record of each list handed over is forgotten.
 */
#define _GNU_SOURCE /* memfd_create() */
#include "usb.h"

#include "drivers.h"
#include "fuzz.h"
#include "output.h"
#include "trace.h"

#include "payload.h"
#include "programs/command_line.h"
#include "programs/guest_file.h"
#include "programs/measure/region.h"

#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define REGION 3240u
#define REGION_TRUTH 3150u
#define TRUTHS 2u
#define WORD "pmv.branchusb"
#define WORD_MAX 32
#define LIMIT_DEFAULT "40"
#define LIMIT_MAX 1000u
#define SEED 20240601ull
#define PERIOD 32u
#define RECORDS (1u << 21)
#define READOUTS (1u << 17)
#define DROPPED 94u /* one of the last before a PMI: they are the case's own */
#define ONE_CASE "--case"
#define NUMBER_MAX 12
#define LINE_MAX_HERE 256
#define NAME_MAX_HERE 128

enum way { TRACED, PLAIN, TRACED_STARTED, PLAIN_STARTED, ONE_OF_TEN, WAYS };
static const struct {
    unsigned each; /* one of this number of cases is traced; 0: none */
    bool started;  /* each case is a new process */
} ways[WAYS] = {{1, false}, {0, false}, {1, true}, {0, true}, {10, false}};

static struct fuzz fuzz;
static bool kept[LIMIT_MAX];
static int input_file;

struct outcome {
    uint64_t branches, pmis, ticks;
    unsigned cut; /* lists that did not fit into the buffer */
};

/* A case as a process: --case TARGET INPUT-FILE CASES TRACER-FILE. */
static int one_case(char **arguments)
{
    fuzz.target = &usb_targets[atoi(arguments[0])];
    if (pread(atoi(arguments[1]), &fuzz.now, sizeof(fuzz.now), 0) != sizeof(fuzz.now) ||
        !usb_begin((unsigned)atoi(arguments[2])))
        return 1;
    if (atoi(arguments[3]) < 0) {
        fuzz_execute(&fuzz);
        return 0;
    }
    return stretch_run(atoi(arguments[3]), 0, fuzz_execute, &fuzz) != 0;
}

static bool start_case(int tracer_file)
{
    char text[4][NUMBER_MAX];
    char *arguments[] = {"branchusb", ONE_CASE, text[0], text[1], text[2], text[3], NULL};
    int numbers[4] = {(int)(fuzz.target - usb_targets), input_file, (int)usb_tally.cases++,
                      tracer_file};
    pid_t child;
    int status = 0;

    for (unsigned n = 0; n < 4; n++)
        snprintf(text[n], sizeof(text[n]), "%d", numbers[n]);
    return (pwrite(input_file, &fuzz.now, sizeof(fuzz.now), 0) == sizeof(fuzz.now) &&
            posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, NULL) == 0 &&
            waitpid(child, &status, 0) == child && status == 0) ||
           complain("a case as a process ended with status %#x", (unsigned)status);
}

/* One case; traced, it adds its branches to the coverage, and `new` says whether there are new
 * ones. False: the list is not whole. */
static bool execute(struct tracer *tracer, bool started, struct coverage *coverage,
                    struct outcome *outcome, bool *new)
{
    struct list list;

    *new = false;
    if (tracer == NULL) {
        if (started)
            return start_case(-1);
        fuzz_execute(&fuzz);
        return true;
    }
    if (started ? !start_case(tracer->fd) || !tracer_read(tracer, 0, &list)
                : !tracer_run(tracer, 0, fuzz_execute, &fuzz, 0, &list))
        return false;
    outcome->branches += list.count;
    outcome->pmis += tracer->result.pmis;
    if (tracer->result.cut == BRANCHTRACE_CUT_FULL) {
        outcome->cut++;
        return true;
    }
    if (!list_complete(&list) || tracer->result.cut != 0) {
        return complain("target %s: %lld branches lost of %zu, %zu gaps, list cut for reason %u, "
                        "wanted a whole list",
                        fuzz.target->name, (long long)list.lost, list.count, list.gaps,
                        tracer->result.cut);
    }
    *new = coverage_add(coverage, &list);
    return true;
}

static void begin(const struct target *target)
{
    const struct usb_kind *kind = &usb_kinds[target - usb_targets];

    fuzz_begin(&fuzz, target, SEED);
    fuzz.now.size = kind->seed_size;
    memcpy(fuzz.now.data, kind->seed, kind->seed_size);
    fuzz.corpus[0] = fuzz.now;
}

static bool run(struct tracer *tracer, const struct target *target, enum way way, unsigned limit,
                struct outcome *outcome)
{
    static struct coverage coverage;
    uint32_t region = REGION + WAYS * (uint32_t)(target - usb_targets) + way;
    bool done = true;

    memset(&coverage, 0, sizeof(coverage));
    begin(target);
    outcome->ticks = __builtin_ia32_rdtsc();
    region_mark(region, true);
    for (unsigned n = 0; done && n < limit; n++) {
        bool traced = ways[way].each != 0 && n % ways[way].each == 0, new;

        fuzz_mutate(&fuzz);
        done = execute(traced ? tracer : NULL, ways[way].started, &coverage, outcome, &new);
        /* The other ways run the same inputs: they keep what the first one kept. */
        kept[n] = way == TRACED ? new : kept[n];
        if (kept[n])
            fuzz_keep(&fuzz);
    }
    region_mark(region, false);
    outcome->ticks = __builtin_ia32_rdtsc() - outcome->ticks;
    return done;
}

/* Finds where each driver's probe begins: the module's first function with that name. */
static void find_probes(uint64_t probes[USB_TARGETS])
{
    char line[LINE_MAX_HERE], name[NAME_MAX_HERE], module[NAME_MAX_HERE];
    FILE *symbols = fopen("/proc/kallsyms", "re");
    uint64_t address;

    while (symbols != NULL && fgets(line, sizeof(line), symbols) != NULL) {
        /* Skip the kernel's own symbols, which are many. */
        if (strchr(line, '[') == NULL ||
            sscanf(line, "%" SCNx64 " %*c %127s [%127[^]]]", &address, name, module) != 3 ||
            strlen(name) < strlen("probe") ||
            strcmp(&name[strlen(name) - strlen("probe")], "probe") != 0)
            continue;
        for (unsigned n = 0; n < USB_TARGETS; n++)
            if (probes[n] == 0 && strcmp(module, usb_kinds[n].module) == 0)
                probes[n] = address;
    }
    if (symbols != NULL)
        fclose(symbols);
}

/* Runs the first input and one more, for the comparison with the emulator's own list. */
static bool truth(struct tracer *tracer, const struct target *target, uint64_t probe, bool drop)
{
    bool done = true;

    begin(target);
    for (uint32_t n = 0; done && n < TRUTHS; n++) {
        uint32_t region = REGION_TRUTH + TRUTHS * (uint32_t)(target - usb_targets) + n;
        unsigned bound = usb_tally.bound, probes = 0;
        struct branchtrace_record head;
        struct list list;

        tracer->setup.region = region;
        done = tracer_set_up(tracer) &&
               tracer_run(tracer, region, fuzz_execute, &fuzz, drop ? DROPPED : 0, &list);
        if (!done)
            break;
        for (size_t i = 0; i < list.count; i++)
            probes += list.records[i].to == probe;
        head = (struct branchtrace_record){region, list.count, tracer->setup.flags};
        guest_file("list", &head, sizeof(head));
        guest_file("list", list.records, list.count * sizeof(*list.records));
        printf("branchusb_truth: target=%s region=%u branches=%zu pmis=%u complete=%d probes=%u "
               "bound=%u\n",
               target->name, region, list.count, tracer->result.pmis,
               list_complete(&list) && tracer->result.cut == 0, probes, usb_tally.bound - bound);
        fuzz_mutate(&fuzz);
    }
    tracer->setup.region = 0;
    return tracer_set_up(tracer) && done;
}

static bool one_target(struct tracer *tracer, const struct target *target, unsigned limit)
{
    struct outcome outcomes[WAYS] = {{0}};
    struct usb_tally before = usb_tally;
    uint64_t calls = driver_calls;

    memset(kept, 0, sizeof(kept));
    for (unsigned way = 0; way < WAYS; way++) {
        if (tracer == NULL && ways[way].each != 0)
            continue;
        if (!run(tracer, target, way, limit, &outcomes[way]))
            return false;
        if (way != (tracer != NULL ? TRACED : PLAIN))
            continue;
        printf("branchusb: target=%s region=%u executions=%u calls=%" PRIu64 " corpus=%u taken=%u "
               "bound=%u\n",
               target->name, REGION + WAYS * (unsigned)(target - usb_targets), limit,
               driver_calls - calls, fuzz.corpus_size, usb_tally.taken - before.taken,
               usb_tally.bound - before.bound);
    }
    for (unsigned way = 0; way < WAYS; way++) {
        printf("branchusb_way: target=%s way=%u branches=%" PRIu64 " pmis=%" PRIu64 " cut=%u "
               "ticks=%" PRIu64 "\n",
               target->name, way, outcomes[way].branches, outcomes[way].pmis, outcomes[way].cut,
               outcomes[way].ticks);
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct branchtrace_setup kernel = {.flags = BRANCHTRACE_KERNEL | BRANCHTRACE_FAR |
                                                             BRANCHTRACE_INSERTS,
                                                    .period = PERIOD,
                                                    .records = RECORDS,
                                                    .readouts = READOUTS};
    uint64_t probes[USB_TARGETS] = {0};
    char word[WORD_MAX], *how;
    struct tracer tracer;
    unsigned long limit;
    bool done, blind;

    if (argc == 6 && strcmp(argv[1], ONE_CASE) == 0)
        return one_case(&argv[2]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    command_line_word(WORD, LIMIT_DEFAULT, word, sizeof(word));
    limit = strtoul(word, &how, 10);
    blind = strcmp(how, ",blind") == 0;
    if (limit == 0 || limit > LIMIT_MAX) {
        return complain("found limit %lu, wanted 1 to %u", limit, LIMIT_MAX) ? 0 : 2;
    }
    input_file = memfd_create("input", 0);
    if (input_file < 0 || !usb_open(strcmp(how, ",hub") == 0) || !usb_begin(0))
        return 1;
    done = blind || tracer_open(&tracer, &kernel);
    if (done && !blind) {
        find_probes(probes);
        done = fcntl(tracer.fd, F_SETFD, 0) == 0; /* a case's process inherits it */
    }
    for (unsigned n = 0; done && n < USB_TARGETS; n++) {
        done = (blind || truth(&tracer, &usb_targets[n], probes[n], strcmp(how, ",drop") == 0)) &&
               one_target(blind ? NULL : &tracer, &usb_targets[n], (unsigned)limit);
    }
    if (!blind)
        tracer_close(&tracer);
    return done ? 0 : 1;
}
