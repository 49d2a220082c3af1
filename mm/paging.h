/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Entries of the 4-level page tables, by the SDM's names. Plain constants.
 * SDM Vol. 3, "4-Level Paging and 5-Level Paging", table "Format of a Page-Table Entry that Maps a
 * 4-KByte Page".
 */
#pragma once

#include "bits.h"

#define PTE_P BIT(0) /* present */
#define PTE_RW BIT(1) /* writes allowed */
#define PTE_PWT BIT(3) /* page-level write-through */
#define PTE_PCD BIT(4) /* page-level cache disable */
#define PTE_A BIT(5) /* accessed */
#define PTE_D BIT(6) /* dirty */
#define PTE_PS BIT(7) /* page size: a leaf above the lowest level */
#define PTE_XD BIT(63) /* execute-disable; needs IA32_EFER.NXE */
#define PTE_ADDRESS BITS(51, 12)

/* The shape that ordinary and extended page tables share. */
#define TABLE_LEVELS 4
#define TABLE_ENTRIES 512
#define TABLE_INDEX_BITS 9
#define PAGE_SHIFT 12

#define LOWER_HALF_END BIT(47) /* end of the canonical addresses that start at 0 */

#define SIZE_2M BIT(21)
#define SIZE_1G BIT(30)

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
