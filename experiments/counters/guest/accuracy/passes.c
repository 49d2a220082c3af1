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

/* Rows of a record: what one thread counted in each pass. */
enum { ROW_SWITCHES = EVENTS, ROW_TSC, ROWS };

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

/* Room for the passes' values, row after row; NULL, with an error line: there is none. */
static uint64_t *record_get(unsigned passes)
{
    uint64_t *record = calloc((size_t)passes * ROWS, sizeof(*record));

    if (record == NULL)
        failed("no memory for %u passes", passes);
    return record;
}

static void record_pass(uint64_t *record, const struct pass *pass, unsigned n, unsigned passes)
{
    for (unsigned i = 0; i < EVENTS; i++)
        record[i * passes + n] = pass->counts.value[i];
    record[ROW_SWITCHES * passes + n] = pass->switches;
    record[ROW_TSC * passes + n] = pass->counts.tsc;
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
    if (pass->data != NULL)
        pass->program->release(pass->data);
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
    if (pass->meet)
        threads_meet();
    if (!done)
        return false;
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
                         uint64_t *record, unsigned passes)
{
    const struct program *program = pass->program;

    for (unsigned i = 0; i < EVENTS; i++) {
        if (i >= EVENT_LLC_REFERENCES && !program->memory)
            continue; /* a handful, of the measurement itself */
        if (pass->not_placed && i >= EVENT_LLC_REFERENCES) {
            print_skip("no large pages to be had at chosen places in the caches", "%s.%s%s", prefix,
                       event_names[i], suffix);
            continue;
        }
        print_values("count", record + i * passes, passes, "%s.%s%s", prefix, event_names[i],
                     suffix);
    }
    if (program->instructions != NULL) {
        print_value("expected", MEASURED_INSTRUCTIONS + program->instructions(&pass->work),
                    "%s.instructions%s", prefix, suffix);
    }
    if (program->branches != NULL) {
        print_value("expected", MEASURED_BRANCHES + program->branches(&pass->work), "%s.branches%s",
                    prefix, suffix);
    }
    if (record[ROW_TSC * passes] != 0)
        print_values("count", record + ROW_TSC * passes, passes, "%s.tsc%s", prefix, suffix);
}

bool passes_alone(const struct program *program, enum pages pages, uint32_t region,
                  const struct options *options)
{
    struct pass pass = pass_of(program, options, SHARES_ALONE, 0);
    uint64_t *record = record_get(options->passes);
    char name[ITEM_MAX];
    bool done = record != NULL;

    pass.work.pages = pages;
    for (unsigned n = 0; done && n < options->passes; n++) {
        pass.region = n == 0 ? region : REGION_UNMARKED;
        done = prepare(&pass) && run_pass(&pass);
        release(&pass);
        record_pass(record, &pass, n, options->passes);
    }
    if (done) {
        snprintf(name, sizeof(name), "%s%s", program->name, pages == PAGES_ANY ? "_any" : "");
        print_region(region, 1, "%s", name);
        print_record(name, "", &pass, record, options->passes);
    }
    free(record);
    return done;
}

bool passes_together(const struct program *program, enum place place, char letter, uint32_t region,
                     const struct options *options)
{
    static const char *const places[] = {
        [PLACE_SHARED] = "", [PLACE_OWN] = "_own", [PLACE_MIGRATED] = "_migrated"};
    struct thread_work work[THREADS] = {0};
    uint64_t *record[THREADS];
    struct pass pass[THREADS];
    char text[ITEM_MAX];
    bool done = true;

    for (unsigned t = 0; t < THREADS; t++) {
        record[t] = record_get(options->passes);
        done &= record[t] != NULL;
        pass[t] = pass_of(program, options, SHARES_OF_THREAD(t + 1), t);
        pass[t].meet = true;
        work[t].work = run_in_thread;
        work[t].argument = &pass[t];
    }
    for (unsigned n = 0; done && n < options->passes; n++) {
        /* Here, so that both threads have had as much of the processor when they start. */
        for (unsigned t = 0; t < THREADS; t++)
            done &= prepare(&pass[t]);
        done = done && threads_run(work, THREADS, place, n == 0 ? region : REGION_UNMARKED);
        for (unsigned t = 0; t < THREADS; t++) {
            release(&pass[t]);
            record_pass(record[t], &pass[t], n, options->passes);
        }
    }
    if (done)
        print_region(region, 1, "%s.threads%s", program->name, places[place]);
    for (unsigned t = 0; t < THREADS; t++) {
        if (done) {
            snprintf(text, sizeof(text), ".%c%u", letter, t + 1);
            print_record(program->name, text, &pass[t], record[t], options->passes);
            print_values("switches", record[t] + ROW_SWITCHES * options->passes, options->passes,
                         "%s%s", program->name, text);
        }
        free(record[t]);
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
