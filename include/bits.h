/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bits, and nothing else.
 */
#pragma once

#include <stdint.h>

/* For the parameters that some functions of a table have no use for. */
#define UNUSED __attribute__((unused))

/* Of an array that is one. */
#define LENGTH_OF(array) (sizeof(array) / sizeof((array)[0]))

#define BIT(n) (UINT64_C(1) << (n))
/* Bits high..low, both inside. */
#define BITS(high, low) ((~UINT64_C(0) >> (63 - (high))) & (~UINT64_C(0) << (low)))
