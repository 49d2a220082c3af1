/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The walk of the guest's page tables, of 4 and of 5 levels: they are built here by the SDM's
 * formats, and the walk has to find what was mapped, and nothing where nothing was.
 */
#include "unit.h"

#include "mm/guest_walk.h"
#include "random.h"

/* The SDM's bits once more, apart from include/x86.h and the like. */
#define P (1ULL << 0)
#define PS (1ULL << 7)
#define XD (1ULL << 63)
#define ADDRESS 0xffffffffff000ULL
#define IGNORED_LOW 0xe66ULL /* A, D, RW, US, and bits that are the software's */

#define PAGE 4096ULL
#define MEMORY_BASE 0x5432100000ULL /* above 4 GiB: the whole address has to be used */
#define PAGES 64
#define LEVELS_MIN 4
#define LEVELS_MAX 5

/* The guest's memory, as much of it as tables take. */
static struct {
    unsigned used; /* pages */
    uint64_t entries[PAGES * PAGE / sizeof(uint64_t)];
} memory;

static unsigned reads;

static uint64_t *entry_at(uint64_t address)
{
    return &memory.entries[(address - MEMORY_BASE) / sizeof(uint64_t)];
}

static const void *guest_memory_at(void *context, uint64_t address)
{
    assert_ptr_equal(context, &memory);
    assert_int_equal(address % sizeof(uint64_t), 0);
    reads++;
    return address - MEMORY_BASE < memory.used * PAGE ? entry_at(address) : NULL;
}

static bool walk(uint64_t cr3, unsigned levels, uint64_t linear, uint64_t *physical)
{
    return guest_walk(cr3, levels, linear, guest_memory_at, &memory, physical);
}

static uint64_t new_table(void)
{
    assert_true(memory.used < PAGES);
    return MEMORY_BASE + PAGE * memory.used++;
}

static uint64_t span_of(unsigned level) { return 1ULL << (12 + 9 * (level - 1)); }

static uint64_t *entry_of(uint64_t table, uint64_t linear, unsigned level)
{
    return entry_at((table & ADDRESS) + linear / span_of(level) % 512 * sizeof(uint64_t));
}

/* Gives CR3, with a PCID, or PWT and PCD. */
static uint64_t start(void)
{
    memset(&memory, 0, sizeof(memory));
    return new_table() | 0xabc;
}

/* Maps the page of `level` (1: 4 KiB) around `linear` to `physical`; gives the leaf. */
static uint64_t *map(uint64_t cr3, unsigned levels, uint64_t linear, unsigned level,
                     uint64_t physical)
{
    uint64_t table = cr3;

    for (unsigned at = levels; at > level; at--) {
        uint64_t *lower = entry_of(table, linear, at);
        if (!(*lower & P))
            *lower = new_table() | P | IGNORED_LOW;
        table = *lower;
    }
    uint64_t *leaf = entry_of(table, linear, level);
    /* In a 4 KiB page bit 7 is PAT; in a large one bit 12 is. */
    *leaf = physical | P | IGNORED_LOW | XD | (level == 1 ? PS : PS | 1u << 12);
    return leaf;
}

/* A linear address that the mode can translate. */
static uint64_t random_linear(unsigned levels)
{
    unsigned unused = 64 - (12 + 9 * levels);

    return (uint64_t)((int64_t)(random_u64() << unused) >> unused);
}

static uint64_t random_physical(uint64_t span) { return random_u64() % (1ULL << 52) & ~(span - 1); }

TEST(test_pages_of_every_size)
{
    random_seed(5);
    for (unsigned n = 0; n < 12000; n++) {
        unsigned levels = LEVELS_MIN + n % 2, level = 1 + (unsigned)random_below(3);
        uint64_t cr3 = start(), linear = random_linear(levels), span = span_of(level), found = 0;
        uint64_t physical = random_physical(span);
        uint64_t *leaf = map(cr3, levels, linear, level, physical);

        reads = 0;
        if (!walk(cr3, levels, linear, &found))
            fail_msg("%u levels: 0x%lx is not found at level %u", levels, linear, level);
        if (found != physical + (linear & (span - 1)))
            fail_msg("%u levels: 0x%lx found at 0x%lx, wanted page 0x%lx", levels, linear, found,
                     physical);
        assert_int_equal(reads, levels - level + 1);
        /* The leaf alone is made not present. */
        *leaf &= ~P;
        assert_false(walk(cr3, levels, linear, &found));
    }
}

/* Many pages in the same tables, against a list. */
TEST(test_neighbours)
{
    enum { COUNT = 40 };

    random_seed(6);
    for (unsigned levels = LEVELS_MIN; levels <= LEVELS_MAX; levels++) {
        uint64_t cr3 = start(), base = random_linear(levels) & ~(span_of(2) - 1);
        uint64_t physical[COUNT], found;

        for (unsigned i = 0; i < COUNT; i += 2)
            map(cr3, levels, base + i * PAGE, 1, physical[i] = random_physical(PAGE));
        for (unsigned i = 0; i < COUNT; i++) {
            bool ok = walk(cr3, levels, base + i * PAGE + 0xabc, &found);
            assert_int_equal(ok, i % 2 == 0);
            if (ok)
                assert_int_equal(found, physical[i] + 0xabc);
        }
    }
}

/* An entry that is not present, or whose table cannot be read, at each level. */
TEST(test_broken_at_each_level)
{
    const uint64_t linear = 0x123456789a;

    for (unsigned levels = LEVELS_MIN; levels <= LEVELS_MAX; levels++) {
        for (unsigned level = 1; level <= levels; level++) {
            uint64_t cr3 = start(), table = cr3, found = 0;

            map(cr3, levels, linear, 1, 0x7000);
            assert_true(walk(cr3, levels, linear, &found));
            for (unsigned at = levels; at > level; at--)
                table = *entry_of(table, linear, at);
            *entry_of(table, linear, level) = IGNORED_LOW;
            assert_false(walk(cr3, levels, linear, &found));
            /* A table that lies outside of the guest's memory; a page may. */
            *entry_of(table, linear, level) = P | 0xffff0000;
            assert_int_equal(walk(cr3, levels, linear, &found), level == 1);
        }
    }
}

TEST(test_root_outside_of_memory)
{
    uint64_t found;

    start();
    for (unsigned levels = LEVELS_MIN; levels <= LEVELS_MAX; levels++) {
        assert_false(walk(0xf0000000, levels, 0x1000, &found));
        assert_false(walk(~0ULL, levels, 0x1000, &found));
    }
}

/* PS where it is reserved: the processor raises #PF, so there is no page. */
TEST(test_reserved_page_size)
{
    for (unsigned levels = LEVELS_MIN; levels <= LEVELS_MAX; levels++)
        for (unsigned level = 4; level <= levels; level++) {
            uint64_t cr3 = start(), found;

            map(cr3, levels, 0x1000, level, 0);
            assert_false(walk(cr3, levels, 0x1000, &found));
        }
}

TEST(test_not_canonical)
{
    for (unsigned levels = LEVELS_MIN; levels <= LEVELS_MAX; levels++) {
        uint64_t half = 1ULL << (11 + levels * 9), cr3 = start(), found;

        map(cr3, levels, half - PAGE, 1, 0x7000);
        map(cr3, levels, half, 1, 0x8000); /* translates 0 - half, which is canonical */
        assert_true(walk(cr3, levels, half - 1, &found));
        assert_int_equal(found, 0x7fff);
        assert_true(walk(cr3, levels, -half, &found));
        assert_int_equal(found, 0x8000);
        assert_false(walk(cr3, levels, half, &found));
        assert_false(walk(cr3, levels, -half - 1, &found));
    }
}
