/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Minimum, median and 95th percentile of a few samples, for every program that measures. Touches no
 * hardware. (bench/README.md says the rule.)
 */
#pragma once

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stddef.h>
#include <stdint.h>
#endif

struct distribution {
    uint64_t n, min, median, p95;
};
/* Nearest rank: the smallest value that `percent` of all are not above. `sorted` is not empty. */
uint64_t nearest_rank(const uint64_t *sorted, size_t n, unsigned percent);
/* Sorts the samples, of which there is at least one. */
struct distribution distribution_of(uint64_t *samples, size_t n);
