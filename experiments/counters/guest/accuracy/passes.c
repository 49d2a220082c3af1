/* SPDX-License-Identifier: BSD-2-Clause
 * passes.c: counts the programs, alone and in threads that share the processor: the counts natively
 * and in a guest are to be the same.
 */
#include "accuracy.h"

#include <stdio.h>
#include <stdlib.h>

#define ITEM_MAX 64
#define PLACES_OF_THREAD 2u      /* two threads' hash tables fit into the cache side by side */
#define SEED 0x243f6a8885a308d3u /* of the first thread; the others' are other multiples of it */

/* One thread's counts of all passes. */
struct record {
    uint64_t *value[EVENTS];
    uint64_t *switches;
    uint64_t *tsc;
};

struct pass {
    const struct program *program;
    struct work work;
    uint32_t region;
    bool meet;
    bool not_placed; /* the memory is not where it was wanted */
    void *data;
    struct counts counts;
    uint64_t switches;
};

static bool record_get(struct record *record, unsigned passes)
{
    bool got = (record->switches = calloc(passes, sizeof(uint64_t))) != NULL;

    got &= (record->tsc = calloc(passes, sizeof(uint64_t))) != NULL;
    for (unsigned i = 0; i < EVENTS; i++) {
        got &= (record->value[i] = calloc(passes, sizeof(uint64_t))) != NULL;
    }
    return got || failed("no memory for %u passes", passes);
}

static void record_put(struct record *record)
{
    free(record->switches);
    free(record->tsc);
    for (unsigned i = 0; i < EVENTS; i++) {
        free(record->value[i]);
    }
}

/* Where the memory cannot be placed, any will do for the events that do not depend on it. */
static bool prepare(struct pass *pass)
{
    pass->data = pass->program->prepare(&pass->work);
    if (pass->data == NULL && pass->work.pages == PAGES_PLACED) {
        pass->work.pages = PAGES_ANY;
        pass->not_placed = true;
        pass->data = pass->program->prepare(&pass->work);
    }
    return pass->data != NULL || failed("no memory for %s", pass->program->name);
}

static void release(struct pass *pass)
{
    if (pass->data != NULL) {
        pass->program->release(pass->data);
    }
    pass->data = NULL;
}

static bool run_pass(struct pass *pass)
{
    struct measured call = {.region = pass->region, .run = pass->program->run, .data = pass->data};
    struct counters counters;
    bool done = counters_open(&counters, true);

    if (done) {
        /* The emulator's caches see what a counter sees, so the counters are on. */
        counters_enable(&counters);
        caches_fill();
        counters_reset(&counters);
    }
    if (pass->meet) {
        threads_meet();
    }
    if (!done) {
        return false;
    }
    call.fd = counters.fd[0];
    pass->switches = thread_switches();
    measured(&call);
    pass->switches = thread_switches() - pass->switches;
    done = counters_read(&counters, &pass->counts);
    counters_close(&counters);
    return done;
}

static bool run_in_thread(struct thread_work *own) { return run_pass(own->argument); }

static struct pass pass_of(const struct program *program, const struct options *options,
                           unsigned shares, unsigned number)
{
    return (struct pass){
        .program = program,
        .work =
            {
                .shares = shares * options->scale,
                .seed = SEED * (2 * number + 1),
                .bytes = options->bytes,
                .place = number * PLACES_OF_THREAD,
            },
        .region = REGION_UNMARKED,
    };
}

/* prefix: "loop" and so on; suffix: "" or ".t1" and so on. */
static void print_record(const char *prefix, const char *suffix, const struct pass *pass,
                         const struct record *record, unsigned passes)
{
    const struct program *program = pass->program;
    const struct work *work = &pass->work;
    char item[ITEM_MAX];

    for (unsigned i = 0; i < EVENTS; i++) {
        if (i >= EVENT_LLC_REFERENCES && !program->memory) {
            continue; /* a handful, of the measurement itself */
        }
        snprintf(item, sizeof(item), "%s.%s%s", prefix, event_names[i], suffix);
        if (pass->not_placed && i >= EVENT_LLC_REFERENCES) {
            print_skip(item, "no large pages to be had at chosen places in the caches");
            continue;
        }
        print_values(item, "count", record->value[i], passes);
        if (i == EVENT_INSTRUCTIONS && program->instructions != NULL) {
            print_value(item, "expected", MEASURED_INSTRUCTIONS + program->instructions(work));
        }
        if (i == EVENT_BRANCHES && program->branches != NULL) {
            print_value(item, "expected", MEASURED_BRANCHES + program->branches(work));
        }
    }
    if (record->tsc[0] != 0) {
        snprintf(item, sizeof(item), "%s.tsc%s", prefix, suffix);
        print_values(item, "count", record->tsc, passes);
    }
}

bool passes_alone(const struct program *program, enum pages pages, uint32_t region,
                  const struct options *options)
{
    struct pass pass = pass_of(program, options, SHARES_ALONE, 0);
    struct record record;
    char name[ITEM_MAX];
    bool done = record_get(&record, options->passes);

    pass.work.pages = pages;
    for (unsigned n = 0; done && n < options->passes; n++) {
        pass.region = n == 0 ? region : REGION_UNMARKED;
        done = prepare(&pass) && run_pass(&pass);
        release(&pass);
        for (unsigned i = 0; i < EVENTS; i++) {
            record.value[i][n] = pass.counts.value[i];
        }
        record.tsc[n] = pass.counts.tsc;
    }
    if (done) {
        snprintf(name, sizeof(name), "%s%s", program->name, pages == PAGES_ANY ? "_any" : "");
        print_region(name, region, 1);
        print_record(name, "", &pass, &record, options->passes);
    }
    record_put(&record);
    return done;
}

bool passes_together(const struct program *program, enum place place, char letter, uint32_t region,
                     const struct options *options)
{
    struct thread_work work[THREADS] = {0};
    struct record record[THREADS];
    struct pass pass[THREADS];
    char text[ITEM_MAX];
    bool done = true;

    for (unsigned t = 0; t < THREADS; t++) {
        done &= record_get(&record[t], options->passes);
        pass[t] = pass_of(program, options, SHARES_OF_THREAD(t + 1), t);
        pass[t].meet = true;
        work[t].work = run_in_thread;
        work[t].argument = &pass[t];
    }
    for (unsigned n = 0; done && n < options->passes; n++) {
        /* Here, so that both threads have had as much of the processor when they start. */
        for (unsigned t = 0; t < THREADS; t++) {
            done &= prepare(&pass[t]);
        }
        done = done && threads_run(work, THREADS, place, n == 0 ? region : REGION_UNMARKED);
        for (unsigned t = 0; t < THREADS; t++) {
            release(&pass[t]);
            for (unsigned i = 0; i < EVENTS; i++) {
                record[t].value[i][n] = pass[t].counts.value[i];
            }
            record[t].switches[n] = pass[t].switches;
            record[t].tsc[n] = pass[t].counts.tsc;
        }
    }
    if (done) {
        snprintf(text, sizeof(text), "%s.threads%s", program->name,
                 place == PLACE_OWN        ? "_own"
                 : place == PLACE_MIGRATED ? "_migrated"
                                           : "");
        print_region(text, region, 1);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        if (done) {
            snprintf(text, sizeof(text), ".%c%u", letter, t + 1);
            print_record(program->name, text, &pass[t], &record[t], options->passes);
            snprintf(text, sizeof(text), "%s.%c%u", program->name, letter, t + 1);
            print_values(text, "switches", record[t].switches, options->passes);
        }
        record_put(&record[t]);
    }
    return done;
}

bool passes_of(const struct program *program, unsigned number, const struct options *options)
{
    uint32_t first = REGION_PROGRAM_FIRST + number * REGION_STEP;

    return passes_alone(program, PAGES_PLACED, first + REGION_ALONE, options) &&
           (!program->memory || passes_alone(program, PAGES_ANY, first + REGION_ANY, options)) &&
           passes_together(program, PLACE_SHARED, 't', first + REGION_THREADS, options);
}
