/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The walk of the guest's page tables, in every paging mode: tables are built here by the SDM's
 * formats, and the walk has to find what was mapped, and nothing where nothing was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mm/guest_walk.h"
#include "random.h"

/* The SDM's bits once more, apart from include/x86.h and the like. */
#define P (1ULL << 0)
#define PS (1ULL << 7)
#define XD (1ULL << 63)
#define CR0_PG_ (1ULL << 31)
#define CR4_PSE_ (1ULL << 4)
#define CR4_PAE_ (1ULL << 5)
#define CR4_LA57_ (1ULL << 12)
#define EFER_LMA_ (1ULL << 10)
#define IGNORED_LOW 0xe66ULL /* A, D, RW, US, and bits that are the software's */

#define PAGE 4096ULL
#define MEMORY_BASE 0x5432100000ULL /* above 4 GiB: the whole address has to be used */
#define MEMORY_BASE_32 0x00300000ULL
#define PAGES 64

/* The guest's memory, as much of it as tables take. */
static struct {
    uint64_t base;
    unsigned used; /* pages */
    uint8_t bytes[PAGES * PAGE];
} memory;

static unsigned reads;

static bool read_entry(void *context, uint64_t address, unsigned bytes, uint64_t *value)
{
    assert_ptr_equal(context, &memory);
    assert_int_equal(address % bytes, 0);
    reads++;
    if (address - memory.base >= memory.used * PAGE)
        return false;
    *value = 0;
    memcpy(value, memory.bytes + (address - memory.base), bytes);
    return true;
}

static uint64_t new_table(void)
{
    assert_true(memory.used < PAGES);
    return memory.base + PAGE * memory.used++;
}

struct mode {
    const char *name;
    struct guest_paging paging;
    unsigned levels, index_bits, entry_bytes;
    unsigned large[2]; /* levels at which PS makes a page */
    uint64_t base;     /* of the memory for tables */
};

static const struct mode modes[] = {
    {"32-bit", {CR0_PG_, 0, 0, 0}, 2, 10, 4, {0, 0}, MEMORY_BASE_32},
    {"32-bit with PSE", {CR0_PG_, 0, CR4_PSE_, 0}, 2, 10, 4, {2, 0}, MEMORY_BASE_32},
    {"PAE", {CR0_PG_, 0, CR4_PAE_, 0}, 3, 9, 8, {2, 0}, MEMORY_BASE_32},
    {"4-level", {CR0_PG_, 0, CR4_PAE_, EFER_LMA_}, 4, 9, 8, {2, 3}, MEMORY_BASE},
    {"5-level", {CR0_PG_, 0, CR4_PAE_ | CR4_LA57_, EFER_LMA_}, 5, 9, 8, {2, 3}, MEMORY_BASE},
};
#define MODES (sizeof(modes) / sizeof(modes[0]))

static uint64_t entry_address(const struct mode *m, uint64_t table, uint64_t linear, unsigned level)
{
    unsigned shift = 12 + m->index_bits * (level - 1);

    return table + (linear >> shift & ((1u << m->index_bits) - 1)) * m->entry_bytes;
}

static void write_entry(const struct mode *m, uint64_t address, uint64_t entry)
{
    memcpy(memory.bytes + (address - memory.base), &entry, m->entry_bytes);
}

static void start(const struct mode *m, struct guest_paging *paging)
{
    memset(&memory, 0, sizeof(memory));
    memory.base = m->base;
    *paging = m->paging;
    paging->cr3 = new_table();
    if (m->levels >= 4)
        paging->cr3 |= 0xabc; /* a PCID, or PWT and PCD */
}

/* Maps the page of `level` (1: 4 KiB) around `linear` to `physical`; gives the leaf's address. */
static uint64_t map(const struct mode *m, const struct guest_paging *paging, uint64_t linear,
                    unsigned level, uint64_t physical)
{
    uint64_t table = paging->cr3 & ~0xfffULL, flags = P | IGNORED_LOW;

    for (unsigned at = m->levels; at > level; at--) {
        uint64_t address = entry_address(m, table, linear, at), lower = 0;

        memcpy(&lower, memory.bytes + (address - memory.base), m->entry_bytes);
        if (!(lower & P)) {
            lower = new_table() | P | IGNORED_LOW;
            /* A PDPTE of PAE paging has no rights. 32-bit entries ignore PS without CR4.PSE. */
            if (m->levels == 3 && at == 3)
                lower &= ~IGNORED_LOW;
            if (m->entry_bytes == 4 && m->large[0] == 0)
                lower |= PS;
            write_entry(m, address, lower);
        }
        table = lower & ~0xfffULL;
    }
    uint64_t leaf = entry_address(m, table, linear, level), entry;
    if (level > 1 && m->entry_bytes == 4) /* PSE-36 */
        entry = (physical & 0xffc00000) | (physical >> 32 & 0xff) << 13;
    else
        entry = physical;
    /* In a 4 KiB page bit 7 is PAT; in a large one bit 12 is. */
    entry |= level == 1 ? PS : PS | 1u << 12;
    if (m->entry_bytes == 8)
        entry |= XD;
    write_entry(m, leaf, entry | flags);
    return leaf;
}

static uint64_t span_of(const struct mode *m, unsigned level)
{
    return 1ULL << (12 + m->index_bits * (level - 1));
}

/* A linear address that the mode can translate. */
static uint64_t random_linear(const struct mode *m)
{
    unsigned bits = 12 + m->levels * m->index_bits;

    if (m->levels < 4)
        return (uint32_t)random_u64();
    return (uint64_t)((int64_t)(random_u64() << (64 - bits)) >> (64 - bits));
}

static uint64_t random_physical(const struct mode *m, uint64_t span, unsigned level)
{
    uint64_t limit = m->entry_bytes == 8 ? 1ULL << 52 : level > 1 ? 1ULL << 40 : 1ULL << 32;

    return random_u64() % limit & ~(span - 1);
}

static void test_pages_of_every_size(void **state)
{
    (void)state;
    random_seed(5);
    for (unsigned k = 0; k < MODES; k++) {
        const struct mode *m = &modes[k];
        const unsigned levels[] = {1, m->large[0], m->large[1]};

        for (unsigned n = 0; n < 3000; n++) {
            struct guest_paging paging;
            unsigned level = levels[random_below(3)];
            uint64_t found = 0;

            if (level == 0)
                continue;
            start(m, &paging);
            uint64_t linear = random_linear(m), span = span_of(m, level);
            uint64_t physical = random_physical(m, span, level);
            uint64_t leaf = map(m, &paging, linear, level, physical);
            reads = 0;
            if (!guest_walk(&paging, linear, read_entry, &memory, &found))
                fail_msg("%s: 0x%lx is not found at level %u", m->name, linear, level);
            if (found != physical + (linear & (span - 1)))
                fail_msg("%s: 0x%lx found at 0x%lx, wanted page 0x%lx", m->name, linear, found,
                         physical);
            assert_int_equal(reads, m->levels - level + 1);
            /* The leaf alone is made not present. */
            write_entry(m, leaf, 0);
            assert_false(guest_walk(&paging, linear, read_entry, &memory, &found));
        }
    }
}

/* Many pages in the same tables, against a list. */
static void test_neighbours(void **state)
{
    enum { COUNT = 40 };

    (void)state;
    random_seed(6);
    for (unsigned k = 0; k < MODES; k++) {
        const struct mode *m = &modes[k];
        struct guest_paging paging;
        uint64_t base = random_linear(m) & ~(span_of(m, 2) - 1), physical[COUNT], found;

        start(m, &paging);
        for (unsigned i = 0; i < COUNT; i += 2)
            map(m, &paging, base + i * PAGE, 1, physical[i] = random_physical(m, PAGE, 1));
        for (unsigned i = 0; i < COUNT; i++) {
            bool ok = guest_walk(&paging, base + i * PAGE + 0xabc, read_entry, &memory, &found);
            assert_int_equal(ok, i % 2 == 0);
            if (ok)
                assert_int_equal(found, physical[i] + 0xabc);
        }
    }
}

/* An entry that is not present, or whose table cannot be read, at each level. */
static void test_broken_at_each_level(void **state)
{
    (void)state;
    for (unsigned k = 0; k < MODES; k++) {
        const struct mode *m = &modes[k];

        for (unsigned level = 1; level <= m->levels; level++) {
            for (int way = 0; way < 2; way++) {
                struct guest_paging paging;
                uint64_t linear = 0x123456789aULL & (m->levels < 4 ? 0xffffffff : ~0ULL);
                uint64_t table, found = 0;

                start(m, &paging);
                map(m, &paging, linear, 1, 0x7000);
                assert_true(guest_walk(&paging, linear, read_entry, &memory, &found));
                table = paging.cr3 & ~0xfffULL;
                for (unsigned at = m->levels; at > level; at--) {
                    uint64_t entry = 0;
                    memcpy(&entry, memory.bytes + (entry_address(m, table, linear, at) - m->base),
                           m->entry_bytes);
                    table = entry & ~0xfffULL;
                }
                /* Not present, or a table that lies outside of the guest's memory. */
                uint64_t broken = way == 0 ? IGNORED_LOW : P | 0xffff0000;
                write_entry(m, entry_address(m, table, linear, level), broken);
                bool ok = guest_walk(&paging, linear, read_entry, &memory, &found);
                assert_int_equal(ok, way == 1 && level == 1);
            }
        }
    }
}

static void test_root_outside_of_memory(void **state)
{
    (void)state;
    for (unsigned k = 0; k < MODES; k++) {
        struct guest_paging paging;
        uint64_t found;

        start(&modes[k], &paging);
        paging.cr3 = 0xf0000000;
        assert_false(guest_walk(&paging, 0x1000, read_entry, &memory, &found));
        paging.cr3 = ~0ULL;
        assert_false(guest_walk(&paging, 0x1000, read_entry, &memory, &found));
    }
}

/* PS where it is reserved: the processor raises #PF, so there is no page. */
static void test_reserved_page_size(void **state)
{
    (void)state;
    for (unsigned k = 2; k < MODES; k++) {
        const struct mode *m = &modes[k];
        struct guest_paging paging;
        uint64_t found;

        start(m, &paging);
        map(m, &paging, 0x1000, 1, 0x7000);
        uint64_t root = paging.cr3 & ~0xfffULL;
        write_entry(m, entry_address(m, root, 0x1000, m->levels), (root + PAGE) | P | PS);
        assert_false(guest_walk(&paging, 0x1000, read_entry, &memory, &found));
    }
}

static void test_not_canonical(void **state)
{
    (void)state;
    for (unsigned k = 3; k < MODES; k++) {
        const struct mode *m = &modes[k];
        uint64_t half = 1ULL << (11 + m->levels * m->index_bits);
        struct guest_paging paging;
        uint64_t found;

        start(m, &paging);
        map(m, &paging, half - PAGE, 1, 0x7000);
        map(m, &paging, half, 1, 0x8000); /* translates 0 - half, which is canonical */
        assert_true(guest_walk(&paging, half - 1, read_entry, &memory, &found));
        assert_int_equal(found, 0x7fff);
        assert_true(guest_walk(&paging, -half, read_entry, &memory, &found));
        assert_int_equal(found, 0x8000);
        assert_false(guest_walk(&paging, half, read_entry, &memory, &found));
        assert_false(guest_walk(&paging, -half - 1, read_entry, &memory, &found));
    }
}

static void test_no_paging(void **state)
{
    struct guest_paging paging = {.cr0 = ~CR0_PG_, .cr3 = 0x1000, .cr4 = ~0ULL};
    uint64_t found;

    (void)state;
    reads = 0;
    assert_true(guest_walk(&paging, 0xfffffff0, read_entry, &memory, &found));
    assert_int_equal(found, 0xfffffff0);
    assert_int_equal(reads, 0);
}

/* PAE paging aligns its root to 32 bytes alone. */
static void test_pae_root(void **state)
{
    struct guest_paging paging;
    uint64_t found;

    (void)state;
    start(&modes[2], &paging);
    map(&modes[2], &paging, 0xc0001234, 1, 0x7000);
    memmove(memory.bytes + 0x60, memory.bytes, 32);
    memset(memory.bytes, 0, 32);
    paging.cr3 |= 0x60;
    assert_true(guest_walk(&paging, 0xc0001234, read_entry, &memory, &found));
    assert_int_equal(found, 0x7234);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_of_every_size), cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_broken_at_each_level), cmocka_unit_test(test_root_outside_of_memory),
        cmocka_unit_test(test_reserved_page_size),   cmocka_unit_test(test_not_canonical),
        cmocka_unit_test(test_no_paging),            cmocka_unit_test(test_pae_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
