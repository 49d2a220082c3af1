/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The hypervisor's page tables: what a walk over them finds, W^X, guard pages, edges.
 */
#define SETUP start
#define TEARDOWN stop
#include "unit.h"

#include "mm/mm.h"
#include "pool.h"
#include "random.h"

/* The SDM's bits once more, apart from include/x86.h. */
#define P (1ULL << 0)
#define RW (1ULL << 1)
#define US (1ULL << 2)
#define PWT (1ULL << 3)
#define PCD (1ULL << 4)
#define PS (1ULL << 7)
#define XD (1ULL << 63)
#define ADDRESS 0x000ffffffffff000ULL

#define PAGES 512

static struct range pool;
static uint64_t root;

static int start(void **state)
{
    (void)state;
    pool = pool_new(PAGES);
    page_pool_init(pool);
    root = host_paging_new();
    return root == 0;
}

static int stop(void **state)
{
    (void)state;
    pool_free(pool);
    return 0;
}

/* What the processor finds: the leaf with the rights of the whole way, 0 for a page fault. */
static uint64_t walk(uint64_t address)
{
    uint64_t entry = root, rights = RW | US, no_execute = 0;

    for (int shift = 39; shift >= 12; shift -= 9) {
        entry = ((const uint64_t *)(uintptr_t)(entry & ADDRESS))[address >> shift & 511];
        if (!(entry & P))
            return 0;
        assert_false(shift > 12 && (entry & PS)); /* 4 KiB pages only */
        rights &= entry;
        no_execute |= entry & XD;
    }
    return (entry & ~(RW | US)) | rights | no_execute;
}

static void assert_page(uint64_t address, enum host_access access)
{
    uint64_t leaf = walk(address);

    assert_true(leaf & P);
    assert_int_equal(leaf & ADDRESS, address & ADDRESS); /* identity */
    assert_int_equal(!!(leaf & RW), access == HOST_READ_WRITE || access == HOST_DEVICE);
    assert_int_equal(!(leaf & XD), access == HOST_READ_EXECUTE);
    assert_int_equal(leaf & (PCD | PWT), access == HOST_DEVICE ? PCD | PWT : 0);
    assert_false(leaf & US);
}

TEST(test_empty_table_maps_nothing)
{
    assert_int_equal(root % PAGE_SIZE, 0);
    assert_int_equal(walk(0), 0);
    assert_int_equal(walk((uintptr_t)&pool), 0);
}

TEST(test_each_access)
{
    for (int access = HOST_READ_ONLY; access <= HOST_DEVICE; access++) {
        uint64_t base = GIB * (1 + (uint64_t)access) - PAGE_SIZE; /* crosses into another table */

        assert_true(host_paging_map(root, (struct range){base, 3 * PAGE_SIZE}, access));
        assert_int_equal(walk(base - 1), 0);
        for (uint64_t page = 0; page < 3; page++)
            assert_page(base + page * PAGE_SIZE, access);
        assert_int_equal(walk(base + 3 * PAGE_SIZE), 0);
    }
}

TEST(test_map_replaces)
{
    assert_true(host_paging_map(root, (struct range){MIB, 8 * PAGE_SIZE}, HOST_READ_WRITE));
    assert_true(
        host_paging_map(root, (struct range){MIB + PAGE_SIZE, PAGE_SIZE}, HOST_READ_EXECUTE));
    assert_page(MIB, HOST_READ_WRITE);
    assert_page(MIB + PAGE_SIZE, HOST_READ_EXECUTE);
    assert_page(MIB + 2 * PAGE_SIZE, HOST_READ_WRITE);
}

TEST(test_unmap)
{
    assert_true(host_paging_map(root, (struct range){MIB, 3 * PAGE_SIZE}, HOST_READ_WRITE));
    host_paging_unmap(root, MIB + PAGE_SIZE);
    assert_page(MIB, HOST_READ_WRITE);
    assert_int_equal(walk(MIB + PAGE_SIZE), 0);
    assert_page(MIB + 2 * PAGE_SIZE, HOST_READ_WRITE);

    uint64_t before = page_pool_free();

    host_paging_unmap(root, 100 * GIB); /* never mapped: nothing happens, nothing is used up */
    host_paging_unmap(root, UINT64_MAX);
    assert_int_equal(page_pool_free(), before);
}

TEST(test_parts_of_pages_are_widened)
{
    assert_true(host_paging_map(root, (struct range){MIB + 0xfff, 2}, HOST_READ_ONLY));
    assert_page(MIB, HOST_READ_ONLY);
    assert_page(MIB + PAGE_SIZE, HOST_READ_ONLY);
    assert_int_equal(walk(MIB + 2 * PAGE_SIZE), 0);
    assert_true(host_paging_map(root, (struct range){2 * MIB + 8, 0}, HOST_READ_ONLY));
    assert_int_equal(walk(2 * MIB), 0);
}

TEST(test_not_canonical)
{
    const uint64_t end = 1ULL << 47;

    assert_true(host_paging_map(root, (struct range){end - PAGE_SIZE, PAGE_SIZE}, HOST_DEVICE));
    assert_page(end - PAGE_SIZE, HOST_DEVICE);
    assert_false(
        host_paging_map(root, (struct range){end - PAGE_SIZE, PAGE_SIZE + 1}, HOST_DEVICE));
    assert_false(host_paging_map(root, (struct range){end, PAGE_SIZE}, HOST_DEVICE));
    assert_false(host_paging_map(root, (struct range){PAGE_SIZE, UINT64_MAX}, HOST_DEVICE));
}

static void map_first_page(void)
{
    (void)host_paging_map(root, (struct range){0, PAGE_SIZE}, HOST_READ_WRITE);
}
static void make_root(void) { (void)host_paging_new(); }

TEST(test_out_of_pages)
{
    assert_non_null(page_alloc(page_pool_free() - 2)); /* one too few for a walk of three */
    assert_uses_up_pool(map_first_page);
    assert_uses_up_pool(make_root);
}

TEST(test_window)
{
    struct host_window w;
    uint64_t before = page_pool_free();

    assert_true(host_paging_map(root, pool, HOST_READ_WRITE));
    before = page_pool_free();
    w = host_window_new(root);
    assert_int_equal(page_pool_free(), before - 1); /* the page is the pool's own, mapped already */
    uint64_t page = (uintptr_t)w.page;
    assert_in_range(page, pool.base, pool.base + pool.size - PAGE_SIZE);
    assert_int_equal(walk(page), 0); /* until it is turned to something */
    assert_int_equal(w.physical, HOST_WINDOW_SHUT);
    for (uint64_t physical = 0x1234567890; physical < 1ULL << 52; physical *= 3) {
        host_window_map(&w, physical);
        assert_int_equal(w.physical, physical & ADDRESS);
        uint64_t leaf = walk(page);
        assert_int_equal(leaf & ADDRESS, physical & ADDRESS);
        assert_true((leaf & P) && (leaf & XD));
        assert_false(leaf & (RW | US | PS | PCD | PWT));
    }
    assert_page(page - PAGE_SIZE, HOST_READ_WRITE); /* its neighbours are as they were */
    assert_page(page + PAGE_SIZE, HOST_READ_WRITE);
    assert_int_equal(page_pool_free(), before - 1);
}

/* Random maps and unmaps over 4 MiB, against an array. No page is ever both W and X. */
TEST(test_random_operations)
{
    enum { UNMAPPED = -1, SPACE = 1024 };
    static int model[SPACE];
    const uint64_t base = 3 * GIB - 2 * MIB;

    for (unsigned i = 0; i < SPACE; i++)
        model[i] = UNMAPPED;
    random_seed(2);
    for (unsigned n = 0; n < 500; n++) {
        uint64_t first = random_below(SPACE), count = 1 + random_below(SPACE - first);
        int access = (int)random_below(5) - 1;

        if (access == UNMAPPED)
            count = 1;
        for (uint64_t i = first; i < first + count; i++)
            model[i] = access;
        if (access == UNMAPPED)
            host_paging_unmap(root, base + first * PAGE_SIZE);
        else
            assert_true(host_paging_map(root,
                                        (struct range){base + first * PAGE_SIZE, count * PAGE_SIZE},
                                        (enum host_access)access));
        for (unsigned i = 0; i < SPACE; i++) {
            uint64_t leaf = walk(base + i * PAGE_SIZE);

            assert_false((leaf & P) && (leaf & RW) && !(leaf & XD));
            if (model[i] == UNMAPPED)
                assert_int_equal(leaf, 0);
            else
                assert_page(base + i * PAGE_SIZE, (enum host_access)model[i]);
        }
    }
}
