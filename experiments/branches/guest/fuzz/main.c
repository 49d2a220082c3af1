/* SPDX-License-Identifier: BSD-2-Clause
 * main.c: the experiment of the thesis's Table 4.8: what complete branch records cost a fuzzer, and
 * what they are good for. For each of seven targets: inputs until the bug with the branches as
 * feedback; the same inputs again without tracing, for the price; and inputs until the bug without
 * feedback. Regions of the emulator's ledger: 3200 + 2 * target with, 3201 + 2 * target without.
 * Usage: branchfuzz [LIMIT [SEED]]; the kernel command line's word pmv.branchfuzz=LIMIT is taken
 * where there is no argument. LIMIT: executions of each target, at most.
 * By the name branchdrivers it is the same with system calls to seven drivers, and their branches
 * in the kernel: LIMIT inputs each, from region 3220 on, and no run without feedback, because there
 * is no bug to reach.
 */
#include "drivers.h"
#include "fuzz.h"
#include "output.h"
#include "trace.h"

#include "payload.h"
#include "programs/command_line.h"
#include "programs/measure/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGION 3200u
#define REGION_DRIVERS 3220u
#define DRIVERS_NAME "branchdrivers"
#define WORD "pmv.branchfuzz"
#define WORD_MAX 32
#define ITEM_MAX 32
#define LIMIT_DEFAULT "20000"
#define LIMIT_MAX 1000000u
#define SEED_DEFAULT 20240601ull
#define PERIOD 32u
#define RECORDS 8192u
#define READOUTS 1024u
#define KERNEL_RECORDS (1u << 20)
#define KERNEL_READOUTS (1u << 16)

static uint8_t kept[LIMIT_MAX / 8 + 1]; /* a bit for each execution that was kept */

static struct fuzz fuzz;

struct series {
    const struct target *targets;
    unsigned count;
    uint32_t region;
    bool bugs; /* planted ones, which an input may reach */
};

struct outcome {
    unsigned executions; /* the last one reached the bug, if it was reached */
    bool reached;
    unsigned corpus;
    uint64_t digest, branches, pmis, calls;
    unsigned cut; /* executions with a list that the buffer was too small for: without feedback */
    uint64_t began, ticks; /* of the TSC, while the region was open */
};

static void remember(unsigned execution) { kept[execution / 8] |= (uint8_t)(1u << execution % 8); }

static bool remembered(unsigned execution) { return kept[execution / 8] >> execution % 8 & 1; }

static void finish(struct outcome *outcome, unsigned executions)
{
    outcome->executions = executions;
    outcome->reached = fuzz.reached;
    outcome->corpus = fuzz.corpus_size;
    outcome->digest = fuzz_digest(&fuzz);
    outcome->calls = driver_calls;
}

/* False: a trace was not complete, or could not be made. A driver's may be too long for the buffer.
 */
static bool with_feedback(struct tracer *tracer, const struct target *target, uint64_t seed,
                          unsigned limit, bool may_be_cut, struct outcome *outcome)
{
    static struct coverage coverage;
    unsigned n = 0;

    memset(kept, 0, sizeof(kept));
    memset(&coverage, 0, sizeof(coverage));
    fuzz_begin(&fuzz, target, seed);
    while (n < limit && !fuzz.reached) {
        struct list list;

        fuzz_mutate(&fuzz);
        if (!tracer_run(tracer, 0, fuzz_execute, &fuzz, 0, &list))
            return false;
        if (may_be_cut && tracer->result.cut == BRANCHTRACE_CUT_FULL) {
            outcome->cut++;
            n++;
            continue;
        }
        if (!list_complete(&list) || tracer->result.cut != 0) {
            return complain("target %s, execution %u: %lld branches lost of %zu, list cut for "
                            "reason %u, wanted a "
                            "whole list",
                            target->name, n, (long long)list.lost, list.count, tracer->result.cut);
        }
        outcome->branches += list.count;
        outcome->pmis += tracer->result.pmis;
        if (coverage_add(&coverage, &list)) {
            fuzz_keep(&fuzz);
            remember(n);
        }
        n++;
    }
    finish(outcome, n);
    return true;
}

/* The same inputs: what is kept was decided before. */
static void again(const struct target *target, uint64_t seed, unsigned executions,
                  struct outcome *outcome)
{
    fuzz_begin(&fuzz, target, seed);
    for (unsigned n = 0; n < executions; n++) {
        fuzz_mutate(&fuzz);
        fuzz_execute(&fuzz);
        if (remembered(n))
            fuzz_keep(&fuzz);
    }
    finish(outcome, executions);
}

static void without_feedback(const struct target *target, uint64_t seed, unsigned limit,
                             struct outcome *outcome)
{
    unsigned n = 0;

    fuzz_begin(&fuzz, target, seed);
    while (n < limit && !fuzz.reached) {
        fuzz_mutate(&fuzz);
        fuzz_execute(&fuzz);
        n++;
    }
    finish(outcome, n);
}

static void begin(struct outcome *outcome, uint32_t region)
{
    outcome->began = __builtin_ia32_rdtsc();
    region_mark(region, true);
}

static void end(struct outcome *outcome, uint32_t region)
{
    region_mark(region, false);
    outcome->ticks = __builtin_ia32_rdtsc() - outcome->began;
}

static void print_time(const struct series *series, const char *target, const char *way,
                       uint32_t region, const struct outcome *outcome)
{
    char item[ITEM_MAX];

    snprintf(item, sizeof(item), "%s_%s", target, way);
    print_ticks(series->bugs ? "branchfuzz" : DRIVERS_NAME, item, region, outcome->executions,
                outcome->ticks);
}

static bool one_target(struct tracer *tracer, const struct series *series, unsigned number,
                       uint64_t seed, unsigned limit)
{
    const struct target *target = &series->targets[number];
    uint32_t region = series->region + 2 * number;
    struct outcome with = {0}, replay = {0}, blind = {0};
    bool done;

    driver_calls = 0;
    begin(&with, region);
    done = with_feedback(tracer, target, seed, limit, !series->bugs, &with);
    end(&with, region);
    if (!done)
        return false;
    begin(&replay, region + 1);
    again(target, seed, with.executions, &replay);
    end(&replay, region + 1);
    if (replay.digest != with.digest || replay.reached != with.reached)
        return complain("target %s: the same inputs gave another corpus", target->name);
    print_time(series, target->name, "traced", region, &with);
    print_time(series, target->name, "plain", region + 1, &replay);
    if (!series->bugs) {
        printf(DRIVERS_NAME
               ": target=%s region=%u executions=%u calls=%llu corpus=%u branches=%llu pmis=%llu "
               "cut=%u\n",
               target->name, region, with.executions, (unsigned long long)with.calls, with.corpus,
               (unsigned long long)with.branches, (unsigned long long)with.pmis, with.cut);
        return true;
    }
    without_feedback(target, seed, limit, &blind);
    printf("branchfuzz: target=%s region=%u executions=%u reached=%d corpus=%u digest=%016llx "
           "branches=%llu pmis=%llu blind_executions=%u blind_reached=%d\n",
           target->name, region, with.executions, with.reached, with.corpus,
           (unsigned long long)with.digest, (unsigned long long)with.branches,
           (unsigned long long)with.pmis, blind.executions, blind.reached);
    return true;
}

int main(int argc, char **argv)
{
    static const struct branchtrace_setup user = {
        .flags = BRANCHTRACE_USER, .period = PERIOD, .records = RECORDS, .readouts = READOUTS};
    static const struct branchtrace_setup kernel = {.flags = BRANCHTRACE_KERNEL | BRANCHTRACE_FAR |
                                                             BRANCHTRACE_INSERTS,
                                                    .period = PERIOD,
                                                    .records = KERNEL_RECORDS,
                                                    .readouts = KERNEL_READOUTS};
    const char *name = strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 : argv[0];
    struct series series = {.targets = targets, .count = TARGETS, .region = REGION, .bugs = true};
    char word[WORD_MAX];
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : SEED_DEFAULT;
    struct tracer tracer;
    unsigned long limit;
    bool done;

    setvbuf(stdout, NULL, _IOLBF, 0);
    command_line_word(WORD, LIMIT_DEFAULT, word, sizeof(word));
    limit = strtoul(argc > 1 ? argv[1] : word, NULL, 10);
    if (limit == 0 || limit > LIMIT_MAX || seed == 0) {
        return complain("found limit %lu and seed %llu, wanted 1 to %u, and not 0", limit,
                        (unsigned long long)seed, LIMIT_MAX)
                   ? 0
                   : 2;
    }
    if (strcmp(name, DRIVERS_NAME) == 0) {
        series = (struct series){.targets = drivers, .count = DRIVERS, .region = REGION_DRIVERS};
        if (!drivers_open())
            return 1;
    }
    done = tracer_open(&tracer, series.bugs ? &user : &kernel);
    for (unsigned n = 0; done && n < series.count; n++)
        done = one_target(&tracer, &series, n, seed, (unsigned)limit);
    tracer_close(&tracer);
    return done ? 0 : 1;
}
