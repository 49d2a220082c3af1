/* SPDX-License-Identifier: BSD-2-Clause
 * main.c: the experiment of the thesis's Table 4.8: what complete branch records cost a fuzzer, and
 * what they are good for. For each of seven targets: inputs until the bug with the branches as
 * feedback; the same inputs again without tracing, for the price; and inputs until the bug without
 * feedback. Regions of the emulator's ledger: 3200 + 2 * target with, 3201 + 2 * target without.
 * Usage: branchfuzz [LIMIT [SEED]]; the kernel command line's word pmv.branchfuzz=LIMIT is taken
 * where there is no argument. LIMIT: executions of each target, at most.
 */
#include "fuzz.h"
#include "output.h"
#include "trace.h"

#include "programs/command_line.h"
#include "programs/measure/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGION 3200u
#define WORD "pmv.branchfuzz"
#define WORD_MAX 32
#define LIMIT_DEFAULT "20000"
#define LIMIT_MAX 1000000u
#define SEED_DEFAULT 20240601ull
#define PERIOD 32u
#define RECORDS 8192u
#define READOUTS 1024u

static uint8_t kept[LIMIT_MAX / 8 + 1]; /* a bit for each execution that was kept */

static struct fuzz fuzz;

struct outcome {
    unsigned executions; /* the last one reached the bug, if it was reached */
    bool reached;
    unsigned corpus;
    uint64_t digest, branches, pmis;
};

static void remember(unsigned execution)
{
    kept[execution / 8] |= (uint8_t)(1u << execution % 8);
}

static bool remembered(unsigned execution)
{
    return kept[execution / 8] >> execution % 8 & 1;
}

static void finish(struct outcome *outcome, unsigned executions)
{
    outcome->executions = executions;
    outcome->reached = fuzz.reached;
    outcome->corpus = fuzz.corpus_size;
    outcome->digest = fuzz_digest(&fuzz);
}

/* False: a trace was not complete, or could not be made. */
static bool with_feedback(struct tracer *tracer, const struct target *target, uint64_t seed,
                          unsigned limit, struct outcome *outcome)
{
    static struct coverage coverage;
    unsigned n = 0;

    memset(kept, 0, sizeof(kept));
    coverage_reset(&coverage);
    fuzz_begin(&fuzz, target, seed);
    while (n < limit && !fuzz.reached) {
        struct list list;

        fuzz_mutate(&fuzz);
        if (!tracer_run(tracer, 0, fuzz_execute, &fuzz, 0, &list)) {
            return false;
        }
        if (!list_complete(&list) || tracer->result.cut != 0) {
            return complain("target %s, execution %u: %lld branches lost, wanted none",
                            target->name, n, (long long)list.lost);
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
        if (remembered(n)) {
            fuzz_keep(&fuzz);
        }
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

static bool one_target(struct tracer *tracer, unsigned number, uint64_t seed, unsigned limit)
{
    const struct target *target = &targets[number];
    uint32_t region = REGION + 2 * number;
    struct outcome with = {0}, replay = {0}, blind = {0};
    bool done;

    region_mark(region, true);
    done = with_feedback(tracer, target, seed, limit, &with);
    region_mark(region, false);
    if (!done) {
        return false;
    }
    region_mark(region + 1, true);
    again(target, seed, with.executions, &replay);
    region_mark(region + 1, false);
    if (replay.digest != with.digest || replay.reached != with.reached) {
        return complain("target %s: the same inputs gave another corpus", target->name);
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
    static const struct branchtrace_setup setup = {
        .flags = BRANCHTRACE_USER, .period = PERIOD, .records = RECORDS, .readouts = READOUTS};
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
                        (unsigned long long)seed, LIMIT_MAX) ? 0 : 2;
    }
    done = tracer_open(&tracer, &setup);
    for (unsigned n = 0; done && n < TARGETS; n++) {
        done = one_target(&tracer, n, seed, (unsigned)limit);
    }
    tracer_close(&tracer);
    return done ? 0 : 1;
}
