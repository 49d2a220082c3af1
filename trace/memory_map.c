/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The maps of the memory trace: copies of the guest's own map that deny accesses, and root mode's
 * own view of the guest's memory. All are made of a few pages of the pool, by one walk.
 *
 * Only write-back memory that the guest may write is ever denied: reading a device's register for
 * its value would do something.
 */
#include "trace/memory.h"

#include "hypercall.h"
#include "mm/paging.h"

#define VIEW_FIRST 128 /* the entry of root mode's PML4 table, see memory_at() */
#define VIEW_ENTRIES 128
#define LEVEL_1G 3

/* One copy under way. */
struct copy {
    uint64_t first, last;
    uint64_t deny;   /* of EPT_RWX */
    bool small;      /* in 4 KiB pages, so that one can be changed by itself later */
    bool view;       /* entries of root mode's own tables instead */
    bool page_1g;    /* of them */
};

static struct {
    uint64_t *page, *next, *end; /* of the pool: the first one of the maps, the next one, the end */
    uint64_t closed, half_open;  /* EPT pointers */
    uint32_t mode, users;
    uint64_t first, bytes, cr3;
    int lock;
} maps;

static uint64_t *new_table(void)
{
    if (maps.next == maps.end)
        return NULL;
    uint64_t *table = maps.next;
    maps.next += TABLE_ENTRIES;
    for (unsigned i = 0; i < TABLE_ENTRIES; i++)
        table[i] = 0;
    return table;
}

static bool is_memory(uint64_t leaf)
{
    return leaf & EPT_WRITE && (leaf >> EPT_MEMORY_TYPE_SHIFT & 7) == MEMORY_WB;
}

static uint64_t copied(const struct copy *c, uint64_t leaf, unsigned level, bool inside)
{
    if (!c->view)
        return inside ? leaf & ~c->deny : leaf;
    return is_memory(leaf) ? (leaf & EPT_ADDRESS) | PTE_P | PTE_RW | PTE_A | PTE_D | PTE_XD |
                                 (level > 1 ? PTE_PS : 0)
                           : 0;
}

static bool has_to_split(const struct copy *c, unsigned level, uint64_t address, bool inside)
{
    uint64_t last = address + entry_span(level) - 1;

    if (level == 1)
        return false;
    if (c->view)
        return level == LEVEL_1G && !c->page_1g;
    return inside && (c->small || address < c->first || last > c->last);
}

/* `from` and `to` may be the same table. */
static bool copy_table(const uint64_t *from, uint64_t *to, unsigned level, uint64_t base,
                       const struct copy *c)
{
    for (unsigned i = 0; i < TABLE_ENTRIES; i++) {
        uint64_t entry = from[i], address = base + i * entry_span(level), *lower;

        if (!(entry & EPT_RWX) || (c->view && level == TABLE_LEVELS && i >= VIEW_ENTRIES))
            continue;
        bool leaf = level == 1 || entry & EPT_PAGE;
        bool inside = is_memory(entry) && address <= c->last &&
                      address + entry_span(level) - 1 >= c->first;
        if (leaf && !has_to_split(c, level, address, inside)) {
            to[i] = copied(c, entry, level, inside);
            continue;
        }
        lower = new_table();
        if (lower == NULL)
            return false;
        const uint64_t *source = (const uint64_t *)(entry & EPT_ADDRESS);
        for (unsigned j = 0; leaf && j < TABLE_ENTRIES; j++)
            lower[j] = (entry & ~(level == 2 ? EPT_PAGE : 0)) + j * entry_span(level - 1);
        if (!copy_table(leaf ? lower : source, lower, level - 1, address, c))
            return false;
        to[i] = (uint64_t)lower | (c->view ? PTE_P | PTE_RW | PTE_A : EPT_RWX);
    }
    return true;
}

static bool denies_reads(uint32_t mode) { return mode != MEMTRACE_WRITES; }

uint64_t memory_map_pages(const struct boot_info *bi, uint64_t tables)
{
    uint64_t gibs = bi->memory_top / entry_span(LEVEL_1G) + 2;
    uint64_t small = bi->memory_top / entry_span(LEVEL_1G - 1) + 2 + gibs;
    const uint64_t ends = 4; /* two, and each may be inside of a large page of either size */

    if (bi->options.memtrace == MEMTRACE_OFF)
        return 0;
    uint64_t view = tables + gibs, writes = tables + ends;
    return view + writes + (denies_reads(bi->options.memtrace) ? tables + ends + small : 0);
}

static uint64_t count_tables(const uint64_t *table, unsigned level)
{
    uint64_t count = 1;

    for (unsigned i = 0; level > 1 && i < TABLE_ENTRIES; i++)
        if (table[i] & EPT_RWX && !(table[i] & EPT_PAGE))
            count += count_tables((const uint64_t *)(table[i] & EPT_ADDRESS), level - 1);
    return count;
}

bool memory_map_setup(const struct cpu *cpu)
{
    const uint64_t *open = (const uint64_t *)cpu->ept_root;
    uint64_t *root = (uint64_t *)cpu->host_cr3;
    const struct copy view = {.last = ~0ULL, .view = true,
                              .page_1g = cpuid(CPUID_LEAF_EXTENDED_1, 0).edx &
                                         CPUID_EXTENDED_1_EDX_PAGE_1G};

    if (maps.page != NULL) /* another processor was here */
        return true;
    uint64_t pages = memory_map_pages(cpu->boot, count_tables(open, TABLE_LEVELS));
    maps.next = page_alloc(pages);
    if (maps.next == NULL)
        return false;
    maps.end = maps.next + pages * TABLE_ENTRIES;
    if (!copy_table(open, root + VIEW_FIRST, TABLE_LEVELS, 0, &view))
        return false;
    maps.page = maps.next;
    return true;
}

static uint64_t new_map(const struct cpu *cpu, uint64_t deny, bool small)
{
    const struct cpu_memory *m = &cpu->memory;
    bool linear = m->cr3 != 0;
    const struct copy c = {.first = linear ? 0 : m->first, .deny = deny, .small = small,
                           .last = linear ? ~0ULL : m->first + (m->bytes - 1)};
    uint64_t *root = new_table();

    if (root == NULL ||
        !copy_table((const uint64_t *)cpu->ept_root, root, TABLE_LEVELS, 0, &c))
        return 0;
    return (uint64_t)root | EPTP_WALK_4 | EPTP_MEMORY_WB;
}

static bool new_maps(const struct cpu *cpu)
{
    uint32_t mode = cpu->memory.mode;

    maps.next = maps.page;
    maps.mode = mode;
    maps.first = cpu->memory.first;
    maps.bytes = cpu->memory.bytes;
    maps.cr3 = cpu->memory.cr3;
    maps.half_open = mode == MEMTRACE_READS ? cpu->memory.open : new_map(cpu, EPT_WRITE, false);
    maps.closed =
        denies_reads(mode) ? new_map(cpu, EPT_READ | EPT_WRITE, true) : maps.half_open;
    return maps.closed != 0 && maps.half_open != 0;
}

/* A range of one CR3 needs no map of its own, but the mode does. */
static bool same_maps(const struct cpu_memory *m)
{
    return maps.mode == m->mode && maps.cr3 == m->cr3 && maps.first == m->first &&
           maps.bytes == m->bytes;
}

static void lock(void)
{
    while (__atomic_exchange_n(&maps.lock, 1, __ATOMIC_ACQUIRE))
        cpu_relax();
}

static void unlock(void) { __atomic_store_n(&maps.lock, 0, __ATOMIC_RELEASE); }

int64_t memory_map_use(struct cpu *cpu)
{
    int64_t result = 0;

    lock();
    if (maps.users != 0 && !same_maps(&cpu->memory))
        result = HYPERCALL_E_STATE;
    else if (maps.users == 0 && !new_maps(cpu))
        result = HYPERCALL_E_SUPPORT;
    else
        maps.users++;
    cpu->memory.closed = maps.closed;
    cpu->memory.half_open = maps.half_open;
    unlock();
    /* Pages of the maps were pages of other maps before. */
    flush_guest_translations();
    return result;
}

void memory_map_leave(void)
{
    lock();
    maps.users--;
    unlock();
}

void *memory_of_guest(const struct cpu *cpu, uint64_t physical)
{
    uint64_t bytes;

    if (physical >= VIEW_ENTRIES * entry_span(TABLE_LEVELS) ||
        !is_memory(ept_lookup(cpu->ept_root, physical, &bytes)))
        return NULL;
    return memory_at(physical);
}

void memory_map_let_read(struct cpu *cpu, uint64_t physical)
{
    uint64_t *table = (uint64_t *)(cpu->memory.closed & EPT_ADDRESS);

    for (unsigned level = TABLE_LEVELS; level > 1; level--)
        table = (uint64_t *)(table[entry_index(physical, level)] & EPT_ADDRESS);
    uint64_t before = __atomic_fetch_or(&table[entry_index(physical, 1)], EPT_READ,
                                        __ATOMIC_RELAXED);
    if (!(before & EPT_READ))
        cpu->trace.ring->unread++;
}
