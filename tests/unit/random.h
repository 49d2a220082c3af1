/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Random numbers for property tests: the same sequence in every run, so that a failure repeats.
 * The generator is SplitMix64.
 */
#pragma once

#include <stdint.h>

static uint64_t random_state;

static inline void random_seed(uint64_t seed) { random_state = seed; }

static inline uint64_t random_u64(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15ULL;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

static inline uint64_t random_below(uint64_t limit) { return random_u64() % limit; }
