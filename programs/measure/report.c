/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs the loops and prints the lines: "bench: experiment=E item=I ...", one for each item.
 */
#include "internal.h"

const struct measure_environment *measure_host;
uint64_t measure_failed;
uint64_t measure_samples[MEASURE_RUNS_MAX];

static uint32_t wanted(uint32_t asked, uint32_t usual, uint32_t most)
{
    if (asked == 0)
        return usual;
    return asked < most ? asked : most;
}

uint32_t runs_wanted(void) { return wanted(measure_host->runs, MEASURE_RUNS, MEASURE_RUNS_MAX); }

uint32_t item_passes(void) { return 1 + runs_wanted() + 1; }

uint32_t operations_wanted(void)
{
    uint32_t most = MEASURE_PRODUCT_MAX / item_passes();

    return wanted(measure_host->operations, MEASURE_OPERATIONS,
                  most < MEASURE_OPERATIONS_MAX ? most : MEASURE_OPERATIONS_MAX);
}

static void print_name(const struct item *item)
{
    measure_host->print("bench: experiment=%s item=%s", item->experiment, item->name);
    if (item->base != NULL)
        measure_host->print(" base=%s", item->base);
}

static void print_samples(const char *metric, const char *unit, uint64_t *samples, size_t n)
{
    struct distribution d = distribution_of(samples, n);

    measure_host->print(" metric=%s unit=%s n=%lu min=%lu median=%lu p95=%lu\n", metric, unit,
                        (unsigned long)d.n, (unsigned long)d.min, (unsigned long)d.median,
                        (unsigned long)d.p95);
}

static void print_line(const struct item *item, uint32_t operations, uint64_t *samples, size_t n)
{
    print_name(item);
    if (item->region != 0)
        measure_host->print(" region=%lu ops=%lu", (unsigned long)item->region,
                            (unsigned long)operations);
    print_samples("time", "tsc", samples, n);
}

void item_pass(const struct item *item, loop_function function, const struct loop *loop,
               uint32_t number)
{
    struct loop run = *loop;
    bool marked = number == item_passes() - 1;

    run.operations = operations_wanted();
    if (marked)
        region_mark(item->region, true);
    function(&run);
    if (marked)
        region_mark(item->region, false);
    else if (number != 0) /* 0: caches and branch predictors */
        measure_samples[number - 1] = run.end - run.begin;
}

void item_print_loop(const struct item *item)
{
    print_line(item, operations_wanted(), measure_samples, runs_wanted());
}

void item_loop(const struct item *item, loop_function function, const struct loop *loop)
{
    for (uint32_t i = 0; i < item_passes(); i++)
        item_pass(item, function, loop, i);
    item_print_loop(item);
}

void item_latency(const struct item *item, uint64_t *samples, size_t n)
{
    print_line(item, 1, samples, n);
}

void item_counts(const struct item *item, const char *metric, uint64_t *samples, size_t n)
{
    print_name(item);
    print_samples(metric, "count", samples, n);
}

void item_count(const struct item *item, const char *metric, uint64_t value)
{
    print_name(item);
    measure_host->print(" metric=%s unit=count value=%lu\n", metric, (unsigned long)value);
}

void item_skip(const struct item *item, const char *why)
{
    print_name(item);
    measure_host->print(" skip=\"%s\"\n", why);
}
