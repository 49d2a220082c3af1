/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Copies the guest's EPT. A copy is either another EPT with fewer rights, or entries of root mode's
 * own page tables, through which root mode reaches the memory that the guest may write. The copy is
 * written to table pages that the caller has set aside and, for root mode, also to root mode's
 * top-level table. The original map does not change. SDM Vol. 3, "The Extended Page Table Mechanism
 * (EPT)".
 */
#include "experiments/memory/hypervisor/ept_copy.h"

#include <stddef.h>

#include "vmx.h"
#include "mm/paging.h"

#define LEVEL_2M 2
#define LEVEL_1G 3

static uint64_t *new_table(struct ept_copy *c)
{
    uint64_t *table = c->next;

    if (table == c->end)
        return NULL;
    c->next += TABLE_ENTRIES;
    for (unsigned i = 0; i < TABLE_ENTRIES; i++)
        table[i] = 0;
    return table;
}

/* Root mode's tables map a leaf only if it is `inside`. So they map no devices, and nothing past
 * the end of memory. */
static uint64_t copy_leaf(const struct ept_copy *c, uint64_t leaf, unsigned level, bool inside)
{
    if (c->as != EPT_COPY_HOST)
        return inside ? leaf & ~c->deny : leaf;
    return inside ? (leaf & EPT_ADDRESS) | PTE_P | PTE_RW | PTE_A | PTE_D | PTE_XD |
                        (level > 1 ? PTE_PS : 0)
                  : 0;
}

static bool must_split(const struct ept_copy *c, unsigned level, uint64_t address, bool inside)
{
    uint64_t last = address + entry_span(level) - 1;

    if (level == 1 || !inside)
        return false;
    if (c->as == EPT_COPY_HOST)
        return level == LEVEL_1G && !c->page_1g;
    return c->as == EPT_COPY_SMALL || address < c->first || last > c->last;
}

/* Copies the table `from` to `to`, and all tables below it. `from` and `to` may be the same table.
 * Returns false if the table pages run out. */
static bool copy_table(struct ept_copy *c, const uint64_t *from, uint64_t *to, unsigned level,
                       uint64_t base)
{
    for (unsigned i = 0; i < TABLE_ENTRIES; i++) {
        uint64_t entry = from[i], address = base + i * entry_span(level);

        if (!(entry & EPT_RWX) || (c->as == EPT_COPY_HOST && address >= EPT_COPY_HOST_LIMIT))
            continue;
        bool leaf = level == 1 || entry & EPT_PAGE;
        bool inside = ept_is_memory(entry) != c->devices && address <= c->last &&
                      address + entry_span(level) - 1 >= c->first;
        if (leaf && !must_split(c, level, address, inside)) {
            to[i] = copy_leaf(c, entry, level, inside);
            continue;
        }
        uint64_t *lower = new_table(c);
        if (lower == NULL)
            return false;
        for (unsigned j = 0; leaf && j < TABLE_ENTRIES; j++)
            lower[j] = (entry & ~(level == LEVEL_2M ? EPT_PAGE : 0)) + j * entry_span(level - 1);
        if (!copy_table(c, leaf ? lower : (const uint64_t *)(uintptr_t)(entry & EPT_ADDRESS), lower,
                        level - 1, address))
            return false;
        to[i] = (uint64_t)(uintptr_t)lower |
                (c->as == EPT_COPY_HOST ? PTE_P | PTE_RW | PTE_A : EPT_RWX);
    }
    return true;
}

uint64_t ept_copy(uint64_t root, struct ept_copy *c)
{
    uint64_t *to = new_table(c);

    return to != NULL && copy_table(c, (const uint64_t *)(uintptr_t)root, to, TABLE_LEVELS, 0)
               ? (uint64_t)(uintptr_t)to
               : 0;
}

bool ept_copy_to_host(uint64_t root, struct ept_copy *c, uint64_t host_root)
{
    uint64_t *to = (uint64_t *)(uintptr_t)host_root;

    return copy_table(c, (const uint64_t *)(uintptr_t)root,
                      to + entry_index(EPT_COPY_HOST_LIMIT, TABLE_LEVELS), TABLE_LEVELS, 0);
}

static uint64_t count_tables(const uint64_t *table, unsigned level)
{
    uint64_t count = 1;

    for (unsigned i = 0; level > 1 && i < TABLE_ENTRIES; i++)
        if (table[i] & EPT_RWX && !(table[i] & EPT_PAGE))
            count += count_tables((const uint64_t *)(uintptr_t)(table[i] & EPT_ADDRESS), level - 1);
    return count;
}

uint64_t ept_count_tables(uint64_t root)
{
    return count_tables((const uint64_t *)(uintptr_t)root, TABLE_LEVELS);
}
