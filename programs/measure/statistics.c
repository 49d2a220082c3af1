/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Minimum, median and 95th percentile of a few samples, in integers. Touches no hardware.
 */
#include "statistics.h"

#define PERCENT 100
#define MEDIAN 50
#define HIGH_PERCENTILE 95

static void sort(uint64_t *values, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t value = values[i];
        size_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
}

uint64_t nearest_rank(const uint64_t *sorted, size_t n, unsigned percent)
{
    size_t rank = (n * percent + PERCENT - 1) / PERCENT;

    return sorted[rank == 0 ? 0 : rank - 1];
}

struct distribution distribution_of(uint64_t *samples, size_t n)
{
    sort(samples, n);
    return (struct distribution){n, samples[0], nearest_rank(samples, n, MEDIAN),
                                 nearest_rank(samples, n, HIGH_PERCENTILE)};
}
