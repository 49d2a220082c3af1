/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest's EPT: an identity map of all memory and devices except the hidden ranges. Under EPT,
 * the processor does not use the MTRRs for the guest's accesses, so the map's entries have the
 * memory types of the MTRRs. Writes only to pages of tables. SDM Vol. 3, "The Extended Page Table
 * Mechanism (EPT)" and "EPT and Memory Typing".
 *
 * The map is built once, before the first VM entry, and never changes. So no page changes its size
 * or type while a translation of the page is cached. On some processors, such a change of size
 * causes a machine check (erratum "Machine Check Error on Page Size Change"). This map never causes
 * it. A guest kernel can still cause it by its own page tables, as on the bare machine.
 */
#include <stddef.h>

#include "mm/mm.h"
#include "mm/paging.h"
#include "vmx.h"

#define LEVEL_2M 2
#define LEVEL_1G 3
#define REACH_MIN (4ULL << 30)        /* all addresses that 32-bit devices can occupy */
#define REACH_2M_PAGES (512ULL << 30) /* in 2 MiB pages, this takes 2 MiB of tables */

/* One run over the map. The run either builds the tables or only counts them. */
struct walk {
    const struct ept_request *q;
    uint64_t reach;
    bool count_only;
    uint64_t tables;
};

enum overlap { OVERLAP_NONE, OVERLAP_SOME, OVERLAP_ALL };

/* Returns how much of [base, base+size) the range covers, after the range is widened to whole
 * pages. */
static enum overlap range_overlap(const struct range *range, uint64_t base, uint64_t size)
{
    uint64_t last = base + size - 1;

    if (range->size == 0)
        return OVERLAP_NONE;
    uint64_t range_first = range->base & ~(PAGE_SIZE - 1);
    uint64_t range_last = range->size - 1 > UINT64_MAX - range->base
                              ? UINT64_MAX
                              : (range->base + range->size - 1) | (PAGE_SIZE - 1);
    if (range_first > last || range_last < base)
        return OVERLAP_NONE;
    return range_first <= base && range_last >= last ? OVERLAP_ALL : OVERLAP_SOME;
}

/* Returns how much of [base, base+size) is hidden. A page that is partly hidden counts as
 * hidden. */
static enum overlap get_overlap_with_hidden(const struct walk *w, uint64_t base, uint64_t size)
{
    enum overlap overlap = OVERLAP_NONE;

    for (uint32_t i = 0; i < w->q->hidden_count && !w->count_only; i++) {
        enum overlap one = range_overlap(&w->q->hidden[i], base, size);

        overlap = one > overlap ? one : overlap;
    }
    return overlap;
}

/* The first 2 MiB are always mapped by 4 KiB pages: the fixed MTRRs end inside them, and the SDM
 * advises against large pages there (SDM Vol. 3, "Large Page Size Considerations"). */
static bool is_page_size_allowed(const struct walk *w, uint64_t address, unsigned level)
{
    return level == 1 || (address >= SIZE_2M && ((level == LEVEL_2M && w->q->page_2m) ||
                                                 (level == LEVEL_1G && w->q->page_1g)));
}

/* Returns NULL in a run that only counts the tables. */
static uint64_t *new_table(struct walk *w)
{
    w->tables++;
    return w->count_only ? NULL : page_alloc(1);
}

/* Fills the table of `level` whose first entry translates `base`. With `uniform`, all memory that
 * the table translates is known to be of `type`. */
static void ept_fill_table(struct walk *w, uint64_t *table, unsigned level, uint64_t base,
                           bool uniform, enum memory_type type)
{
    uint64_t span = entry_span(level);

    for (unsigned i = 0; i < TABLE_ENTRIES; i++) {
        uint64_t address = base + i * span;

        if (address >= w->reach)
            break;

        uint64_t size = span < w->reach - address ? span : w->reach - address;
        enum overlap readable = w->count_only ? OVERLAP_NONE
                                              : range_overlap(&w->q->readable, address, size);
        enum overlap hidden = readable == OVERLAP_NONE  ? get_overlap_with_hidden(w, address, size)
                              : readable == OVERLAP_ALL ? OVERLAP_NONE
                                                        : OVERLAP_SOME;
        if (hidden == OVERLAP_ALL)
            continue;

        uint64_t entry;
        bool one_type = uniform || mtrr_lookup_type(w->q->mtrr, address, size, &type);
        if (!one_type)
            type = MEMORY_UC; /* used only past MAXPHYADDR: below it, a 4 KiB page has one type */
        if (level == 1 || (hidden == OVERLAP_NONE && one_type && size == span &&
                           is_page_size_allowed(w, address, level))) {
            /* The entry does not set "ignore PAT", so the guest's PAT still applies. */
            entry = address | (readable == OVERLAP_ALL ? EPT_READ : EPT_RWX) |
                    (level > 1 ? EPT_PAGE : 0) | (uint64_t)type << EPT_MEMORY_TYPE_SHIFT;
        } else {
            uint64_t *lower = new_table(w);

            ept_fill_table(w, lower, level - 1, address, one_type, type);
            entry = (uint64_t)(uintptr_t)lower | EPT_RWX;
        }
        if (table != NULL) /* NULL: tables are only counted */
            table[i] = entry;
    }
}

uint64_t ept_get_address_limit(const struct ept_request *q)
{
    uint32_t bits = q->address_bits < EPT_ADDRESS_BITS ? q->address_bits : EPT_ADDRESS_BITS;
    uint64_t limit = 1ULL << bits;
    uint64_t reach = q->page_2m ? REACH_2M_PAGES : REACH_MIN;

    if (q->page_1g || q->top > limit - SIZE_1G)
        return limit;
    if (q->top > reach)
        reach = (q->top + SIZE_1G - 1) / SIZE_1G * SIZE_1G;
    return reach < limit ? reach : limit;
}

uint64_t ept_build(const struct ept_request *q)
{
    struct walk w = {.q = q, .reach = ept_get_address_limit(q)};
    uint64_t *root = new_table(&w);

    ept_fill_table(&w, root, TABLE_LEVELS, 0, false, MEMORY_UC);
    return (uint64_t)(uintptr_t)root;
}

/* Counts the tables of a map without hidden ranges. Then adds the largest number of tables that the
 * ends of the hidden ranges and of the readable range can need. An end needs more tables only if it
 * lies inside a large page. Reads hidden_count, but not the hidden ranges themselves: the pool is a
 * hidden range, and the caller asks for the pool's size before it places the pool. */
uint64_t ept_pages_needed(const struct ept_request *q)
{
    struct walk w = {.q = q, .reach = ept_get_address_limit(q), .count_only = true};
    uint64_t tables_per_end = 1 + (q->page_2m ? 1 : TABLE_ENTRIES);

    ept_fill_table(&w, new_table(&w), TABLE_LEVELS, 0, false, MEMORY_UC);
    return w.tables + 2 * tables_per_end * (q->hidden_count + (q->readable.size != 0));
}

uint64_t ept_lookup(uint64_t root, uint64_t address, uint64_t *page_bytes)
{
    uint64_t entry = root | EPT_RWX;

    if (address >> EPT_ADDRESS_BITS != 0)
        return 0;
    for (unsigned level = TABLE_LEVELS; level > 0; level--) {
        const uint64_t *table = (const uint64_t *)(uintptr_t)(entry & EPT_ADDRESS);

        entry = table[entry_index(address, level)];
        if (!(entry & EPT_RWX))
            return 0;
        if (level == 1 || (entry & EPT_PAGE)) {
            *page_bytes = entry_span(level);
            return entry;
        }
    }
    return 0;
}
