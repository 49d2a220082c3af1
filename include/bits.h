/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bits, and nothing else.
 */
#ifndef PMUVISOR_BITS_H
#define PMUVISOR_BITS_H

#include <stdint.h>

#define BIT(n) (UINT64_C(1) << (n))
/* Bits high..low, both inside. */
#define BITS(high, low) ((~UINT64_C(0) >> (63 - (high))) & (~UINT64_C(0) << (low)))

#endif
