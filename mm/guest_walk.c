/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Walks the guest's page tables. SDM Vol. 3, "4-Level Paging and 5-Level Paging".
 */
#include "mm/guest_walk.h"

#include <stddef.h>

#include "mm/paging.h"
#include "x86.h"

#define LARGE_LEVEL 3 /* the highest level at which PS means a page; above it PS is reserved */

bool guest_walk(uint64_t cr3, unsigned levels, uint64_t linear, guest_memory memory, void *context,
                uint64_t *physical)
{
    uint64_t entry = cr3;
    unsigned level = levels + 1;
    /* All bits above the translated ones must repeat the highest translated bit. */
    int64_t top = (int64_t)linear >> (PAGE_SHIFT + levels * TABLE_INDEX_BITS - 1);

    if (top != 0 && top != -1)
        return false;
    do {
        level--;
        uint64_t offset = entry_index(linear, level) * sizeof(entry);
        const volatile uint64_t *from = memory(context, (entry & PTE_ADDRESS) + offset);
        if (from == NULL)
            return false;
        entry = *from;
        if (!(entry & PTE_P))
            return false;
    } while (level > 1 && !(entry & PTE_PS));
    if (level > LARGE_LEVEL)
        return false;
    uint64_t in_page = entry_span(level) - 1;
    *physical = (entry & PTE_ADDRESS & ~in_page) | (linear & in_page);
    return true;
}
