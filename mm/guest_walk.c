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

#define CR3_ADDRESS_PAE BITS(31, 5)
#define ADDRESS_32 BITS(31, 12)
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
        return (struct mode){.levels = 2, .index_bits = 10, .entry_bytes = sizeof(uint32_t),
                             .large_level = p->cr4 & CR4_PSE ? 2 : 1, .ps_ignored = true,
                             .root = p->cr3 & ADDRESS_32, .address = ADDRESS_32};
    bool long_mode = p->efer & EFER_LMA;
    return (struct mode){.levels = !long_mode ? 3 : p->cr4 & CR4_LA57 ? 5 : TABLE_LEVELS,
                         .index_bits = TABLE_INDEX_BITS, .entry_bytes = sizeof(uint64_t),
                         .large_level = long_mode ? 3 : 2,
                         .root = p->cr3 & (long_mode ? PTE_ADDRESS : CR3_ADDRESS_PAE),
                         .address = PTE_ADDRESS};
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
    /* All bits above the translated ones have to repeat the highest of them. */
    int64_t top = (int64_t)linear >> (PAGE_SHIFT + m.levels * m.index_bits - 1);
    if (long_mode && top != 0 && top != -1)
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
            *physical = (entry & m.address & ~(span - 1)) | (linear & (span - 1));
            if (m.entry_bytes == sizeof(uint32_t) && level > 1)
                *physical |= (entry & PSE36_ADDRESS_HIGH) << PSE36_SHIFT;
            return true;
        }
        table = entry & m.address;
    }
}
