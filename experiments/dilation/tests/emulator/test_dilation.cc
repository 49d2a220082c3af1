// SPDX-License-Identifier: BSD-2-Clause
//
// The knob's value, and the cache: a matrix of 64 x 64 words in 8 KiB of two ways, which cachegrind
// has 4608 misses for (experiments/memory/memtrace.md).
#include "check.h"
#include "root_time.h"
#include "small_cache.h"

namespace {

TEST(root_time_is_a_way_and_ticks)
{
    RootTime time;

    CHECK(root_time_parse("kept 0", &time) && !time.taken);
    CHECK(root_time_parse("taken 576", &time) && time.taken);
    CHECK_EQUAL(time.ticks, 576u);
    CHECK(!root_time_parse("taken", &time));
    CHECK(!root_time_parse("lost 3", &time));
    CHECK(!root_time_parse("kept 3 4", &time));
}

TEST(matrix_misses_as_in_cachegrind)
{
    SmallCache cache(8192, 2);
    const uint64_t side = 64;
    unsigned missed = 0;

    for (uint64_t cell = 0; cell < side * side; cell++)
        missed += cache.misses(8 * cell, 8);
    for (uint64_t column = 0; column < side; column++)
        for (uint64_t cell = column; cell < side * side; cell += side)
            missed += cache.misses(8 * cell, 8);
    CHECK_EQUAL(missed, 4608u);
}

TEST(two_lines_are_one_access)
{
    SmallCache cache(32768, 8);

    CHECK(cache.misses(60, 8));
    CHECK(!cache.misses(0, 64));
    CHECK(!cache.misses(64, 64));
    cache.forget();
    CHECK(cache.misses(64, 1));
}

}  // namespace
