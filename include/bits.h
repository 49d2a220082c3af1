/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bits, alignment, array lengths and unused parameters.
 */
#pragma once

#include <stdint.h>

/* Marks a parameter that a function does not use, but that the function's type requires. */
#define UNUSED __attribute__((unused))

/* The number of elements. `array` must be an array, not a pointer. */
#define LENGTH_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Returns the first multiple of `alignment`, a power of two, from `n` on. */
static inline uint64_t align_up(uint64_t n, uint64_t alignment)
{
    return (n + alignment - 1) & ~(alignment - 1);
}

#define BIT(n) (UINT64_C(1) << (n))
/* Bits high..low, inclusive. */
#define BITS(high, low) ((~UINT64_C(0) >> (63 - (high))) & (~UINT64_C(0) << (low)))
