/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The page allocator: aligned, zeroed, disjoint pages inside the pool, and a clean end.
 */
#include "unit.h"

#include "mm/mm.h"
#include "pool.h"

#define PAGES 64

static bool zeroed(const uint8_t *bytes, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

TEST(test_pages_are_zeroed_and_disjoint)
{
    struct range pool = pool_new(PAGES);
    uint8_t *last = NULL;
    uint64_t pages = 0;

    page_pool_init(pool);
    assert_int_equal(page_pool_free(), PAGES - 1);
    for (uint64_t count = 1; page_pool_free() >= count; count++) {
        uint8_t *p = page_alloc(count);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % PAGE_SIZE, 0);
        assert_true(zeroed(p, count * PAGE_SIZE));
        memset(p, 0x5a, count * PAGE_SIZE); /* would show up in a page given out twice */
        assert_true((uintptr_t)p >= pool.base + PAGE_SIZE);
        assert_true((uintptr_t)p + count * PAGE_SIZE <= pool.base + pool.size);
        assert_true(p > last);
        last = p;
        pages += count;
        assert_int_equal(page_pool_free(), PAGES - 1 - pages);
    }
    pool_free(pool);
}

TEST(test_reset_doorbell_is_left_alone)
{
    struct range pool = pool_new(PAGES);
    uint8_t before[PAGE_SIZE];

    memcpy(before, (void *)(uintptr_t)pool.base, sizeof(before));
    page_pool_init(pool);
    assert_non_null(page_alloc(PAGES - 1));
    assert_memory_equal((void *)(uintptr_t)pool.base, before, sizeof(before));
    pool_free(pool);
}

static void alloc_no_page(void) { (void)page_alloc(0); }
static void alloc_one_page(void) { (void)page_alloc(1); }
static void alloc_one_too_many(void) { (void)page_alloc(PAGES); }
static void alloc_most(void) { (void)page_alloc(UINT64_MAX); }
/* This many bytes are 0 in 64 bits. */
static void alloc_all_addresses(void) { (void)page_alloc(1ULL << 52); }

TEST(test_end_of_pool)
{
    struct range pool = pool_new(PAGES);

    page_pool_init(pool);
    assert_uses_up_pool(alloc_no_page);
    assert_uses_up_pool(alloc_one_too_many);
    assert_uses_up_pool(alloc_most);
    assert_uses_up_pool(alloc_all_addresses);
    assert_int_equal(page_pool_free(), PAGES - 1);
    assert_non_null(page_alloc(PAGES - 1)); /* a refusal costs nothing */
    assert_int_equal(page_pool_free(), 0);
    assert_uses_up_pool(alloc_one_page);
    pool_free(pool);
}

TEST(test_pool_too_small)
{
    struct range pool = pool_new(PAGES);

    for (uint64_t size = 0; size < 2 * PAGE_SIZE; size += PAGE_SIZE / 2) {
        page_pool_init((struct range){.base = pool.base, .size = size});
        assert_int_equal(page_pool_free(), 0);
        assert_uses_up_pool(alloc_one_page);
    }
    pool_free(pool);
}
