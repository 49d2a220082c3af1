/* SPDX-License-Identifier: BSD-2-Clause
 * pages.c: page tables of the self-test's own. SDM Vol. 3, "4-Level Paging and 5-Level Paging".
 */
#include "selftest.h"

#define ENTRIES 512
#define LARGE_SHIFT 21
#define LARGE BIT(7)
#define GIGABYTES 4

typedef uint64_t table[ENTRIES] __attribute__((aligned(4096)));
static table pml4, pdpt, directory[GIGABYTES];

uint64_t *large_page(uint64_t address) { return &directory[0][address >> LARGE_SHIFT]; }

uint64_t page_tables(uint64_t more)
{
    pml4[0] = (uint64_t)(uintptr_t)pdpt | PAGE_PRESENT | PAGE_WRITABLE | PAGE_USER;
    for (unsigned i = 0; i < GIGABYTES; i++) {
        pdpt[i] = (uint64_t)(uintptr_t)directory[i] | PAGE_PRESENT | PAGE_WRITABLE | PAGE_USER;
        for (uint64_t k = 0; k < ENTRIES; k++)
            directory[i][k] = (i * ENTRIES + k) << LARGE_SHIFT | LARGE | PAGE_PRESENT |
                              PAGE_WRITABLE | more;
    }
    return (uint64_t)(uintptr_t)pml4;
}
