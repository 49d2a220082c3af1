/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Copies of the EPT: each address of some machines has in the copy what it has in the map, less
 * what is denied in the range; the map itself stays; the pages are enough, and one too few is said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "experiments/memory/hypervisor/ept_copy.h"
#include "mm/mm.h"
#include "mm/paging.h"
#include "mtrr_model.h"
#include "pool.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define POOL_PAGES 8192
#define HOLE (3 * GIB) /* devices, to 4 GiB */

static struct range pool;
static uint64_t root;
static struct mtrr_state mtrr;

static int start(void **state)
{
    (void)state;
    pool = pool_new(POOL_PAGES);
    page_pool_init(pool);
    mtrr = (struct mtrr_state){.default_type = MODEL_E | MEMORY_WB,
                               .physical_address_bits = 39,
                               .capability = 1,
                               .variable_count = 1};
    mtrr.variable[0].base = HOLE | MEMORY_UC;
    mtrr.variable[0].mask = (((1ULL << 39) - 1) & ~(GIB - 1)) | 1ULL << 11;
    static const struct range hidden = {5 * SIZE_2M, 3 * PAGE_SIZE};
    const struct ept_request q = {.mtrr = &mtrr,
                                  .hidden = &hidden,
                                  .hidden_count = 1,
                                  .readable = {5 * SIZE_2M, PAGE_SIZE},
                                  .address_bits = 39,
                                  .page_1g = true,
                                  .page_2m = true,
                                  .top = 8 * GIB};
    root = ept_build(&q);
    return root == 0;
}

static int stop(void **state)
{
    (void)state;
    pool_free(pool);
    return 0;
}

static struct ept_copy request(enum ept_copy_as as, uint64_t deny, uint64_t first, uint64_t last,
                               uint64_t pages)
{
    uint64_t *memory = page_alloc(pages);

    assert_non_null(memory);
    return (struct ept_copy){.as = as,
                             .deny = deny,
                             .first = first,
                             .last = last,
                             .page_1g = true,
                             .next = memory,
                             .end = memory + pages * TABLE_ENTRIES};
}

static const uint64_t places[] = {
    0,
    PAGE_SIZE,
    MIB,
    SIZE_2M - PAGE_SIZE,
    SIZE_2M,
    5 * SIZE_2M - PAGE_SIZE,
    5 * SIZE_2M,
    5 * SIZE_2M + PAGE_SIZE,
    5 * SIZE_2M + 3 * PAGE_SIZE,
    6 * SIZE_2M,
    GIB - PAGE_SIZE,
    GIB,
    GIB + 7 * PAGE_SIZE,
    GIB + SIZE_2M,
    2 * GIB,
    HOLE - PAGE_SIZE,
    HOLE,
    4 * GIB - PAGE_SIZE,
    4 * GIB,
    6 * GIB + 5 * PAGE_SIZE,
    8 * GIB,
    100 * GIB,
};

static void check(const struct ept_copy *c, uint64_t copy)
{
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        uint64_t was_bytes = 0, bytes = 0, address = places[i];
        uint64_t was = ept_lookup(root, address, &was_bytes),
                 now = ept_lookup(copy, address, &bytes);
        bool inside = address >= (c->first & ~(PAGE_SIZE - 1)) && address <= c->last;
        uint64_t wanted = inside && ept_is_memory(was) ? was & EPT_RWX & ~c->deny : was & EPT_RWX;

        if ((now & EPT_RWX) != wanted || bytes > was_bytes ||
            (now != 0 && (now >> EPT_MEMORY_TYPE_SHIFT & 7) != (was >> EPT_MEMORY_TYPE_SHIFT & 7)))
            fail_msg("%#lx: entry %#lx in a copy of %#lx", address, now, was);
        if (now != 0 && (now & EPT_ADDRESS & ~(bytes - 1)) + address % bytes != address)
            fail_msg("%#lx: maps elsewhere, entry %#lx of %#lx bytes", address, now, bytes);
        if (inside && ept_is_memory(was) && c->as == EPT_COPY_SMALL)
            assert_int_equal(bytes, PAGE_SIZE);
    }
}

static void test_ranges(void **state)
{
    static const struct {
        uint64_t first, last;
    } ranges[] = {{0, ~0ULL},
                  {GIB, GIB + PAGE_SIZE - 1},
                  {GIB + 7 * PAGE_SIZE, 2 * GIB - 1},
                  {5 * SIZE_2M, 6 * SIZE_2M - 1},
                  {HOLE - PAGE_SIZE, 4 * GIB + PAGE_SIZE - 1}};

    (void)state;
    uint64_t before = ept_count_tables(root);
    for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        struct ept_copy c = request(EPT_COPY_AS_IT_IS, EPT_WRITE, ranges[i].first, ranges[i].last,
                                    before + 4);
        uint64_t copy = ept_copy(root, &c);

        assert_int_not_equal(copy, 0);
        check(&c, copy);
    }
    assert_int_equal(ept_count_tables(root), before);
}

static void test_small(void **state)
{
    (void)state;
    struct ept_copy c = request(EPT_COPY_SMALL, EPT_READ | EPT_WRITE, GIB, GIB + 3 * SIZE_2M - 1,
                                ept_count_tables(root) + 8);
    uint64_t copy = ept_copy(root, &c), bytes;

    assert_int_not_equal(copy, 0);
    check(&c, copy);
    assert_int_equal(ept_lookup(copy, GIB, &bytes) & EPT_RWX, EPT_EXECUTE);
}

/* Root mode's tables: memory that may be written is there, up to the last byte, and nothing else.
 * */
static void check_host(bool page_1g, uint64_t last, uint64_t pages)
{
    uint64_t host = (uint64_t)(uintptr_t)page_alloc(1);
    struct ept_copy c = request(EPT_COPY_HOST, 0, 0, last, pages);

    c.page_1g = page_1g;
    assert_true(ept_copy_to_host(root, &c, host));
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        uint64_t bytes, at = EPT_COPY_HOST_LIMIT + places[i], entry = host;
        unsigned level = TABLE_LEVELS + 1;

        do {
            level--;
            entry = ((uint64_t *)(uintptr_t)(entry & PTE_ADDRESS))[entry_index(at, level)];
        } while (entry & PTE_P && level > 1 && !(entry & PTE_PS));
        if (!(entry & PTE_P) !=
            (places[i] > last || !ept_is_memory(ept_lookup(root, places[i], &bytes))))
            fail_msg("%#lx: entry %#lx", places[i], entry);
        if (entry & PTE_P) {
            assert_int_equal(entry & (PTE_RW | PTE_XD), PTE_RW | PTE_XD);
            assert_int_equal((entry & PTE_ADDRESS & ~(entry_span(level) - 1)) +
                                 places[i] % entry_span(level),
                             places[i]);
            assert_true(page_1g || level < TABLE_LEVELS - 1);
        }
    }
}

static void test_host(void **state)
{
    (void)state;
    check_host(true, ~0ULL, ept_count_tables(root) + 4);
}

/* Where the EPT has pages of 1 GiB and root mode has none: one table for each GiB of memory, none
 * for devices, nor for what is write-back beyond memory. */
static void test_host_without_1g(void **state)
{
    (void)state;
    check_host(false, 8 * GIB - 1, ept_count_tables(root) + 8);
}

static void test_too_few(void **state)
{
    (void)state;
    uint64_t pages = ept_count_tables(root);
    struct ept_copy c = request(EPT_COPY_AS_IT_IS, EPT_WRITE, 0, ~0ULL, pages);

    assert_int_not_equal(ept_copy(root, &c), 0);
    assert_ptr_equal(c.next, c.end);
    c = request(EPT_COPY_AS_IT_IS, EPT_WRITE, 0, ~0ULL, pages - 1);
    assert_int_equal(ept_copy(root, &c), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranges, start, stop),
        cmocka_unit_test_setup_teardown(test_small, start, stop),
        cmocka_unit_test_setup_teardown(test_host, start, stop),
        cmocka_unit_test_setup_teardown(test_host_without_1g, start, stop),
        cmocka_unit_test_setup_teardown(test_too_few, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
