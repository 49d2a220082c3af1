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

uint32_t runs_wanted(void)
{
    return wanted(measure_host->runs, MEASURE_RUNS, MEASURE_RUNS_MAX);
}

uint32_t operations_wanted(void)
{
    return wanted(measure_host->operations, MEASURE_OPERATIONS, MEASURE_OPERATIONS_MAX);
}

static void print_name(const struct item *item)
{
    measure_host->print("bench: experiment=%s item=%s", item->experiment, item->name);
    if (item->base != NULL)
        measure_host->print(" base=%s", item->base);
}

static void print_line(const struct item *item, uint32_t operations, uint64_t *samples, size_t n)
{
    struct distribution d = distribution_of(samples, n);

    print_name(item);
    if (item->region != 0)
        measure_host->print(" region=%lu ops=%lu", (unsigned long)item->region,
                            (unsigned long)operations);
    measure_host->print(" metric=time unit=tsc n=%lu min=%lu median=%lu p95=%lu\n",
                        (unsigned long)d.n, (unsigned long)d.min, (unsigned long)d.median,
                        (unsigned long)d.p95);
}

void item_collect(const struct item *item, loop_function function, const struct loop *loop)
{
    struct loop run = *loop;
    uint32_t runs = runs_wanted();

    run.operations = operations_wanted();
    function(&run); /* caches and branch predictors */
    for (uint32_t i = 0; i < runs; i++) {
        function(&run);
        measure_samples[i] = run.end - run.begin;
    }
    mark(item->region, true);
    function(&run);
    mark(item->region, false);
}

void item_print_loop(const struct item *item)
{
    print_line(item, operations_wanted(), measure_samples, runs_wanted());
}

void item_loop(const struct item *item, loop_function function, const struct loop *loop)
{
    item_collect(item, function, loop);
    item_print_loop(item);
}

void item_latency(const struct item *item, uint64_t *samples, size_t n)
{
    print_line(item, 1, samples, n);
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
