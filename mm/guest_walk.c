/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The walk. The four ways of paging differ in levels, entry size and where a page may be large.
 * SDM Vol. 3, "32-Bit Paging", "PAE Paging", "4-Level Paging and 5-Level Paging".
 *
 * With PAE paging the processor keeps the four PDPTEs in registers; here they are read from memory,
 * where they are the same unless the guest changed them without loading CR3.
 */
#include "guest_walk.h"

#include "msr.h"
#include "paging.h"
#include "x86.h"

#define LEVELS_32 2
#define LEVELS_PAE 3
#define LEVELS_5 5
#define INDEX_BITS_32 10
#define ENTRY_BYTES_32 4
#define ENTRY_BYTES_64 8
#define CR3_ADDRESS_PAE BITS(31, 5)
#define ADDRESS_32 BITS(31, 12)
#define LEVEL_PAGE_2M 2 /* and 4 MiB with 32-bit paging */
#define LEVEL_PAGE_1G 3
/* PSE-36: bits 39:32 of a 4 MiB page's address are bits 20:13 of its entry. */
#define PSE36_ADDRESS_HIGH BITS(20, 13)
#define PSE36_SHIFT (32 - 13)

struct mode {
    unsigned levels, index_bits, entry_bytes;
    unsigned large_level; /* highest level at which PS means a page; 1: none */
    bool ps_ignored;      /* above that, PS is ignored; else it is reserved */
    uint64_t root, address;
};

static struct mode mode_of(const struct guest_paging *p)
{
    if (!(p->cr4 & CR4_PAE))
        return (struct mode){LEVELS_32, INDEX_BITS_32, ENTRY_BYTES_32,
                             p->cr4 & CR4_PSE ? LEVEL_PAGE_2M : 1, true, p->cr3 & ADDRESS_32,
                             ADDRESS_32};
    if (!(p->efer & EFER_LMA))
        return (struct mode){LEVELS_PAE, TABLE_INDEX_BITS, ENTRY_BYTES_64, LEVEL_PAGE_2M, false,
                             p->cr3 & CR3_ADDRESS_PAE, PTE_ADDRESS};
    return (struct mode){p->cr4 & CR4_LA57 ? LEVELS_5 : TABLE_LEVELS, TABLE_INDEX_BITS,
                         ENTRY_BYTES_64, LEVEL_PAGE_1G, false, p->cr3 & PTE_ADDRESS, PTE_ADDRESS};
}

/* Whether all bits above the translated ones repeat the highest of them. */
static bool canonical(const struct mode *m, uint64_t linear)
{
    unsigned bits = PAGE_SHIFT + m->levels * m->index_bits;
    int64_t top = (int64_t)linear >> (bits - 1);

    return top == 0 || top == -1;
}

static uint64_t page_base(const struct mode *m, uint64_t entry, uint64_t span)
{
    uint64_t base = entry & m->address & ~(span - 1);

    if (m->entry_bytes == ENTRY_BYTES_32 && span > 1u << PAGE_SHIFT)
        base |= (entry & PSE36_ADDRESS_HIGH) << PSE36_SHIFT;
    return base;
}

bool guest_walk(const struct guest_paging *paging, uint64_t linear, guest_entry_read read,
                void *context, uint64_t *physical)
{
    bool long_mode = paging->efer & EFER_LMA;

    if (!long_mode)
        linear = (uint32_t)linear;
    if (!(paging->cr0 & CR0_PG)) {
        *physical = linear;
        return true;
    }
    struct mode m = mode_of(paging);
    if (long_mode && !canonical(&m, linear))
        return false;

    uint64_t table = m.root;
    for (unsigned level = m.levels;; level--) {
        unsigned shift = PAGE_SHIFT + m.index_bits * (level - 1);
        uint64_t span = 1ULL << shift;
        uint64_t index = linear >> shift & ((1u << m.index_bits) - 1);
        uint64_t entry;

        if (!read(context, table + index * m.entry_bytes, m.entry_bytes, &entry) ||
            !(entry & PTE_P))
            return false;
        if (level > m.large_level && level > 1 && entry & PTE_PS && !m.ps_ignored)
            return false;
        if (level == 1 || (level <= m.large_level && entry & PTE_PS)) {
            *physical = page_base(&m, entry, span) | (linear & (span - 1));
            return true;
        }
        table = entry & m.address;
    }
}
