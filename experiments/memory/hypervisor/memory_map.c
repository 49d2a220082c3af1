/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The maps of the memory trace. They are copies of the guest's own map that deny accesses, and root
 * mode's own view of the guest's memory. All of them use pool pages that are set aside at the
 * start. A copy denies accesses to write-back memory or, with MEMTRACE_DEVICES, to everything else.
 */
#include "experiments/memory/hypervisor/state.h"

#include "hypercall.h"
#include "mm/paging.h"

#define LEVEL_1G 3
/* The pool has pages to map at most this number of bytes in small pages. Writing the tables for
 * this number takes about a second. */
#define SMALL_MOST (256ULL << 30)

static struct {
    uint64_t *page;     /* first of the pool's pages for maps */
    uint64_t *next;     /* next free page */
    uint64_t *end;      /* end of these pages */
    uint64_t closed;    /* EPT pointer of the closed map */
    uint64_t half_open; /* EPT pointer of the half-open map */
    uint32_t mode;      /* MEMTRACE_* that the maps serve */
    uint32_t users;     /* processors that use the maps */
    uint64_t first;     /* start of the range */
    uint64_t bytes;     /* length of the range */
    uint64_t cr3;       /* CR3 of a guest-linear range; 0: guest-physical */
    int lock;           /* held while the maps are made or joined */
} maps;

static bool denies_reads(uint32_t mode)
{
    return mode != MEMTRACE_WRITES && mode != MEMTRACE_PAGES;
}
/* Returns whether the maps need small pages. There are two reasons for small pages. First, page
 * walks read memory, so the maps have to allow reads page by page. Second, a page-modification log
 * lists single pages. */
static bool needs_small_pages(uint32_t mode)
{
    return mode == MEMTRACE_READS || mode == MEMTRACE_ALL || mode == MEMTRACE_PAGES;
}

uint64_t memory_map_pages(const struct boot_info *bi, uint64_t tables)
{
    uint64_t gibs = bi->memory_top / entry_span(LEVEL_1G) + 2;
    uint64_t most = bi->memory_top < SMALL_MOST ? bi->memory_top : SMALL_MOST;
    uint64_t small = most / entry_span(LEVEL_1G - 1) + 2 + gibs;
    /* A range has two ends. Each end may need two more tables, one for each size of large pages. */
    const uint64_t ends = 4;

    if (ring_options.memory == MEMTRACE_OFF)
        return 0;
    uint64_t view = tables + gibs, writes = tables + ends;
    return view + writes + (needs_small_pages(ring_options.memory) ? tables + ends + small : 0);
}

bool memory_map_setup(const struct cpu *cpu)
{
    struct ept_copy view = {.as = EPT_COPY_HOST,
                            .last = cpu->boot->memory_top - 1,
                            .page_1g = cpuid(CPUID_LEAF_EXTENDED_1, 0).edx &
                                       CPUID_EXTENDED_1_EDX_PAGE_1G};

    if (maps.page != NULL) /* another processor has set up the maps */
        return true;
    uint64_t pages = memory_map_pages(cpu->boot, ept_count_tables(cpu->ept_root));
    view.next = page_alloc(pages);
    view.end = maps.end = view.next + pages * TABLE_ENTRIES;
    if (!ept_copy_to_host(cpu->ept_root, &view, cpu->host_cr3))
        return false;
    maps.page = view.next;
    return true;
}

static uint64_t make_map(const struct cpu *cpu, uint64_t deny, enum ept_copy_as as)
{
    const struct cpu_memory *m = memory_of(cpu);
    bool linear = m->cr3 != 0;
    bool devices = m->mode == MEMTRACE_DEVICES;
    struct ept_copy c = {.as = as,
                         .deny = deny,
                         .devices = devices,
                         .next = maps.next,
                         .end = maps.end,
                         .first = linear ? 0 : m->first,
                         .last = linear ? ~0ULL : m->first + (m->bytes - 1)};

    /* Past the end of memory, the MTRRs may give the type write-back to empty addresses. */
    if (!devices && c.last >= cpu->boot->memory_top)
        c.last = cpu->boot->memory_top - 1;
    uint64_t root = ept_copy(cpu->ept_root, &c);

    maps.next = c.next;
    return root != 0 ? root | EPTP_WALK_4 | EPTP_MEMORY_WB : 0;
}

static bool make_maps(const struct cpu *cpu)
{
    uint32_t mode = memory_of(cpu)->mode;

    maps.next = maps.page;
    maps.mode = mode;
    maps.first = memory_of(cpu)->first;
    maps.bytes = memory_of(cpu)->bytes;
    maps.cr3 = memory_of(cpu)->cr3;
    maps.half_open = mode == MEMTRACE_READS || mode == MEMTRACE_DEVICES
                         ? memory_of(cpu)->open
                         : make_map(cpu, EPT_WRITE, EPT_COPY_AS_IT_IS);
    maps.closed = denies_reads(mode)
                      ? make_map(cpu, EPT_READ | EPT_WRITE,
                                 needs_small_pages(mode) ? EPT_COPY_SMALL : EPT_COPY_AS_IT_IS)
                      : maps.half_open;
    if (mode == MEMTRACE_PAGES) {
        maps.closed = make_map(cpu, 0, EPT_COPY_SMALL);
        maps.half_open = maps.closed |= maps.closed != 0 ? EPTP_ACCESSED_DIRTY : 0;
    }
    return maps.closed != 0 && maps.half_open != 0;
}

static bool has_same_maps(const struct cpu_memory *m)
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

int64_t memory_map_join(struct cpu *cpu)
{
    int64_t result = 0;

    lock();
    if (maps.users != 0 && !has_same_maps(memory_of(cpu)))
        result = HYPERCALL_E_STATE;
    else if (maps.users == 0 && !make_maps(cpu))
        result = HYPERCALL_E_SUPPORT;
    else
        __atomic_fetch_add(&maps.users, 1, __ATOMIC_RELAXED);
    memory_of(cpu)->closed = maps.closed;
    memory_of(cpu)->half_open = maps.half_open;
    unlock();
    /* Flush, because the maps' pages may have held other maps before. */
    flush_guest_translations();
    return result;
}

void memory_map_leave(void) { __atomic_fetch_sub(&maps.users, 1, __ATOMIC_RELEASE); }

void *memory_find_guest(const struct cpu *cpu, uint64_t physical)
{
    uint64_t bytes;

    /* Past the end of memory, the MTRRs may give the type write-back to a device. */
    if (physical >= cpu->boot->memory_top ||
        !ept_is_memory(ept_lookup(cpu->ept_root, physical, &bytes)))
        return NULL;
    return memory_host_address(physical);
}

bool memory_map_allow_read(struct cpu *cpu, uint64_t physical)
{
    uint64_t *table = (uint64_t *)(memory_of(cpu)->closed & EPT_ADDRESS);

    for (unsigned level = TABLE_LEVELS; level > 1; level--) {
        uint64_t entry = table[entry_index(physical, level)];

        if (entry & EPT_PAGE || !(entry & EPT_RWX))
            return false; /* not reached: all pages that deny reads are small */
        table = (uint64_t *)(entry & EPT_ADDRESS);
    }
    uint64_t before = __atomic_fetch_or(&table[entry_index(physical, 1)], EPT_READ,
                                        __ATOMIC_RELAXED);
    bool opened = !(before & EPT_READ);

    trace_of(cpu)->ring->unread += opened;
    return opened;
}
