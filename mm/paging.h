/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What ordinary and extended page tables share: how an address is taken apart.
 * SDM Vol. 3, "4-Level Paging and 5-Level Paging".
 */
#pragma once

#include "x86.h"

/* Bytes that one entry of a table covers. Level 1 is the lowest, the page table. */
static inline uint64_t entry_span(unsigned level)
{
    return 1ULL << (PAGE_SHIFT + TABLE_INDEX_BITS * (level - 1));
}

/* The entry of a table of `level` that translates `address`. */
static inline unsigned entry_index(uint64_t address, unsigned level)
{
    return (address / entry_span(level)) % TABLE_ENTRIES;
}
