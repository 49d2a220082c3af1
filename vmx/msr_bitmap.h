/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The MSR bitmap: a 1 makes the access exit. SDM Vol. 3, "MSR-Bitmap Address".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MSR_BITMAP_RANGE 0x2000u     /* indices in each of two ranges; the low range begins at 0 */
#define MSR_PAST_BITMAP_LAST 0x3fffu /* MSRs up to here may exist; URDMSR's bitmap ends here */

/* Makes reads, writes, or both exit for the MSRs first..last (inclusive). Skips indices outside the
 * bitmap's ranges: accesses to them exit in any case. `bitmap` is one page. */
void msr_bitmap_set(void *bitmap, uint32_t first, uint32_t last, bool read, bool write);
