/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What ordinary and extended page tables share: how they split an address.
 * SDM Vol. 3, "4-Level Paging and 5-Level Paging".
 */
#pragma once

#include "x86.h"

/* Bytes that one entry of a table covers. Level 1 is the lowest, the page table. */
static inline uint64_t entry_span(unsigned level)
{
    return 1ULL << (PAGE_SHIFT + TABLE_INDEX_BITS * (level - 1));
}

/* The index of the entry that translates `address`, in a table of `level`. */
static inline unsigned entry_index(uint64_t address, unsigned level)
{
    return (address / entry_span(level)) % TABLE_ENTRIES;
}
