/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Splits an address as both ordinary and extended page tables do. SDM Vol. 3, "4-Level Paging and
 * 5-Level Paging".
 */
#pragma once

#include "x86.h"

/* Returns the number of bytes that one entry of a table covers. Level 1 is the lowest, the page
 * table. */
static inline uint64_t entry_span(unsigned level)
{
    return 1ULL << (PAGE_SHIFT + TABLE_INDEX_BITS * (level - 1));
}

/* Returns the index of the entry that translates `address`, in a table of `level`. */
static inline unsigned entry_index(uint64_t address, unsigned level)
{
    return (address / entry_span(level)) % TABLE_ENTRIES;
}
