/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bits of the MSR bitmap. Pure, so that it is tested on the host.
 * SDM Vol. 3, "MSR-Bitmap Address": four parts of 1 KiB: read low, read high, write low, write high.
 */
#include "msr_bitmap.h"

#define LOW_FIRST 0x00000000u
#define HIGH_FIRST 0xc0000000u
#define RANGE 0x2000u
#define PART_BYTES 1024u
#define PART_HIGH 1u
#define PART_WRITE 2u

/* Byte and bit of an index, or false where the bitmap has none. */
static bool locate(uint32_t index, bool write, uint32_t *byte, uint8_t *mask)
{
    uint32_t part = write ? PART_WRITE : 0;
    uint32_t bit;

    if (index - LOW_FIRST < RANGE) {
        bit = index - LOW_FIRST;
    } else if (index - HIGH_FIRST < RANGE) {
        bit = index - HIGH_FIRST;
        part += PART_HIGH;
    } else {
        return false;
    }
    *byte = part * PART_BYTES + bit / 8;
    *mask = (uint8_t)(1u << bit % 8);
    return true;
}

void msr_bitmap_set(void *bitmap, uint32_t first, uint32_t last, bool read, bool write)
{
    uint8_t *bytes = bitmap;
    uint32_t byte;
    uint8_t mask;

    for (uint64_t index = first; index <= last; index++) {
        if (read && locate((uint32_t)index, false, &byte, &mask))
            bytes[byte] |= mask;
        if (write && locate((uint32_t)index, true, &byte, &mask))
            bytes[byte] |= mask;
    }
}

bool msr_bitmap_exits(const void *bitmap, uint32_t index, bool write)
{
    const uint8_t *bytes = bitmap;
    uint32_t byte;
    uint8_t mask;

    return !locate(index, write, &byte, &mask) || (bytes[byte] & mask) != 0;
}
