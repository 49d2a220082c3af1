/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The MSR bitmap. SDM Vol. 3, "MSR-Bitmap Address".
 */
#include "vmx/msr_bitmap.h"

#define HIGH_FIRST 0xc0000000u
#define PART_HIGH 1024 /* offset of the bits for the high range, in bytes */
#define PART_WRITE 2048

void msr_bitmap_set(void *bitmap, uint32_t first, uint32_t last, bool read, bool write)
{
    for (uint64_t index = first; index <= last; index++) {
        bool high = index >= HIGH_FIRST;
        uint64_t bit = index - (high ? HIGH_FIRST : 0);
        uint8_t *byte = (uint8_t *)bitmap + (high ? PART_HIGH : 0) + bit / 8;

        if (bit < MSR_BITMAP_RANGE && read)
            byte[0] |= (uint8_t)(1u << bit % 8);
        if (bit < MSR_BITMAP_RANGE && write)
            byte[PART_WRITE] |= (uint8_t)(1u << bit % 8);
    }
}
