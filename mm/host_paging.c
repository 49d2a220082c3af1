/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The hypervisor's own page tables: identity, 4 KiB pages only, no page both writable and
 * executable. Writes only to pages of tables. The caller loads CR3, and flushes the TLB after a
 * change of live tables. SDM Vol. 3, "4-Level Paging and 5-Level Paging".
 */
#include <stddef.h>

#include "mm/mm.h"
#include "mm/paging.h"

/* Accessed bits, and dirty bits of writable pages, are set here, so that the processor never
 * writes to the tables. Upper levels allow every access, so the leaf alone decides. */
#define TABLE_FLAGS (PTE_P | PTE_RW | PTE_A)

/* PCD and PWT together select PAT entry 3, which is UC after reset and in every firmware and OS
 * that keeps the lower half of the PAT (SDM Vol. 3, "Page Attribute Table (PAT)"). */
static const uint64_t leaf_flags[] = {
    [HOST_READ_ONLY] = PTE_P | PTE_A | PTE_XD,
    [HOST_READ_WRITE] = PTE_P | PTE_A | PTE_D | PTE_RW | PTE_XD,
    [HOST_READ_EXECUTE] = PTE_P | PTE_A,
    [HOST_DEVICE] = PTE_P | PTE_A | PTE_D | PTE_RW | PTE_XD | PTE_PCD | PTE_PWT,
};

static uint64_t *table_of_entry(uint64_t entry)
{
    return (uint64_t *)(uintptr_t)(entry & PTE_ADDRESS);
}

/* Returns the lowest-level entry that translates `address`. With `create`, adds missing tables.
 * NULL: a table is missing. */
static uint64_t *find_leaf_entry(uint64_t root, uint64_t address, bool create)
{
    uint64_t *table = table_of_entry(root);

    for (unsigned level = TABLE_LEVELS; level > 1; level--) {
        uint64_t *entry = &table[entry_index(address, level)];

        if (!(*entry & PTE_P)) {
            if (!create)
                return NULL;
            *entry = (uint64_t)(uintptr_t)page_alloc(1) | TABLE_FLAGS;
        }
        table = table_of_entry(*entry);
    }
    return &table[entry_index(address, 1)];
}

uint64_t host_paging_new(void) { return (uint64_t)(uintptr_t)page_alloc(1); }

/* Widens the range to whole pages. */
bool host_paging_map(uint64_t root, struct range range, enum host_access access)
{
    if (range.base >= LOWER_HALF_END || range.size > LOWER_HALF_END - range.base)
        return false;

    uint64_t page = range.base & ~(PAGE_SIZE - 1);
    uint64_t end = range.base + range.size;

    if (range.size == 0)
        return true;
    for (; page < end; page += PAGE_SIZE)
        *find_leaf_entry(root, page, true) = page | leaf_flags[access];
    return true;
}

struct host_window host_window_new(uint64_t root)
{
    const void *page = page_alloc(1);
    uint64_t *entry = find_leaf_entry(root, (uint64_t)(uintptr_t)page, true);

    *entry = 0;
    return (struct host_window){.page = page, .physical = HOST_WINDOW_SHUT, .entry = entry};
}

void host_window_map(struct host_window *window, uint64_t physical)
{
    window->physical = physical & PTE_ADDRESS;
    *window->entry = window->physical | leaf_flags[HOST_READ_ONLY];
}

void host_paging_unmap(uint64_t root, uint64_t address)
{
    uint64_t *entry = address < LOWER_HALF_END ? find_leaf_entry(root, address, false) : NULL;

    if (entry != NULL)
        *entry = 0;
}
