/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests of the measurements' statistics and of the lines that they print. The loops here are
 * the tests' own: nothing is measured.
 */
#include "unit.h"

#include "../../programs/measure/internal.h"

static char printed[1024];
static uint32_t calls, operations_seen;

__attribute__((format(printf, 1, 2))) static void print(const char *format, ...)
{
    size_t length = strlen(printed);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(printed + length, sizeof(printed) - length, format, arguments);
    va_end(arguments);
}

/* The n-th run takes n * n. */
static void squares(struct loop *loop)
{
    operations_seen = (uint32_t)loop->operations;
    loop->begin = 1000;
    loop->end = 1000 + (uint64_t)calls * calls;
    calls++;
}

static void begin(uint32_t runs, uint32_t operations)
{
    static struct measure_environment environment;

    environment = (struct measure_environment){
        .print = print, .runs = runs, .operations = operations};
    measure_host = &environment;
    printed[0] = '\0';
    calls = 0;
}

TEST(test_nearest_rank)
{
    static const uint64_t five[] = {15, 20, 35, 40, 50};

    assert_int_equal(nearest_rank(five, 5, 5), 15);
    assert_int_equal(nearest_rank(five, 5, 20), 15);
    assert_int_equal(nearest_rank(five, 5, 21), 20);
    assert_int_equal(nearest_rank(five, 5, 30), 20);
    assert_int_equal(nearest_rank(five, 5, 40), 20);
    assert_int_equal(nearest_rank(five, 5, 50), 35);
    assert_int_equal(nearest_rank(five, 5, 80), 40);
    assert_int_equal(nearest_rank(five, 5, 81), 50);
    assert_int_equal(nearest_rank(five, 5, 100), 50);
    assert_int_equal(nearest_rank(five, 5, 0), 15);
    assert_int_equal(nearest_rank(five, 1, 95), 15);
}

TEST(test_distribution)
{
    uint64_t samples[101], backward[20], one[] = {7};

    for (unsigned i = 0; i < 101; i++)
        samples[i] = (i * 37) % 101 + 1; /* 1 to 101, mixed */
    struct distribution d = distribution_of(samples, 101);
    assert_int_equal(d.n, 101);
    assert_int_equal(d.min, 1);
    assert_int_equal(d.median, 51);
    assert_int_equal(d.p95, 96);
    for (unsigned i = 0; i < 20; i++)
        backward[i] = UINT64_MAX - i;
    d = distribution_of(backward, 20);
    assert_true(d.min == UINT64_MAX - 19);
    assert_true(d.median == UINT64_MAX - 10);
    assert_true(d.p95 == UINT64_MAX - 1);
    d = distribution_of(one, 1);
    assert_true(d.n == 1 && d.min == 7 && d.median == 7 && d.p95 == 7);
}

TEST(test_loop_line)
{
    const struct item item = {"e", "i", "empty", 2001}, first = {"e", "empty", NULL, 2000};
    const struct loop registers = {.rax = 0};

    begin(4, 10);
    item_loop(&item, squares, &registers);
    /* The first run warms up, the last one is the marked pass: runs 1 to 4 are timed. */
    assert_int_equal(calls, 6);
    assert_int_equal(operations_seen, 10);
    assert_string_equal(printed, "bench: experiment=e item=i base=empty region=2001 ops=10 "
                                 "metric=time unit=tsc n=4 min=1 median=4 p95=16\n");
    begin(1, 3);
    item_loop(&first, squares, &registers);
    assert_string_equal(printed, "bench: experiment=e item=empty region=2000 ops=3 "
                                 "metric=time unit=tsc n=1 min=1 median=1 p95=1\n");
}

TEST(test_other_lines)
{
    const struct item item = {"a1k", "m100", NULL, 2153}, bare = {"pmi", "back", NULL, 0};
    uint64_t samples[] = {9, 8, 7};

    begin(3, 1000);
    item_latency(&item, samples, 3);
    assert_string_equal(printed, "bench: experiment=a1k item=m100 region=2153 ops=1 "
                                 "metric=time unit=tsc n=3 min=7 median=8 p95=9\n");
    begin(3, 1000);
    item_latency(&bare, samples, 2);
    assert_string_equal(printed, "bench: experiment=pmi item=back "
                                 "metric=time unit=tsc n=2 min=7 median=7 p95=8\n");
    begin(3, 1000);
    item_counts(&item, "skid", samples, 3);
    assert_string_equal(printed, "bench: experiment=a1k item=m100 metric=skid unit=count "
                                 "n=3 min=7 median=8 p95=9\n");
    begin(3, 1000);
    item_count(&item, "pmis", 1000);
    assert_string_equal(printed,
                        "bench: experiment=a1k item=m100 metric=pmis unit=count value=1000\n");
    begin(3, 1000);
    item_skip(&item, "no PMU");
    assert_string_equal(printed, "bench: experiment=a1k item=m100 skip=\"no PMU\"\n");
}

TEST(test_how_many)
{
    begin(0, 0);
    assert_int_equal(runs_wanted(), 101);
    assert_int_equal(operations_wanted(), 1000);
    begin(30, 1);
    assert_int_equal(runs_wanted(), 30);
    assert_int_equal(operations_wanted(), 1);
    begin(1, UINT32_MAX);
    assert_int_equal(runs_wanted(), 1);
    assert_int_equal(operations_wanted(), MEASURE_OPERATIONS_MAX);
    /* Both: all passes of an item make 1,000,000 operations at most. */
    begin(UINT32_MAX, UINT32_MAX);
    assert_int_equal(runs_wanted(), MEASURE_RUNS_MAX);
    assert_int_equal(operations_wanted(), 1000000 / (1023 + 2));
    begin(0, UINT32_MAX);
    assert_int_equal(operations_wanted(), 1000000 / (101 + 2));
}
