/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bits, and nothing else.
 */
#ifndef PMUVISOR_BITS_H
#define PMUVISOR_BITS_H

#include <stdint.h>

#define BIT(n) (1ULL << (n))
/* Bits high..low, both inside. */
#define BITS(high, low) (((~0ULL) >> (63 - (high))) & ((~0ULL) << (low)))

#endif
