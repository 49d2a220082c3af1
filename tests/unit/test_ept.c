/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The EPT builder: page sizes, types, reach and hidden ranges one by one, then random machines
 * whose maps are compared with the naive MTRR model, hidden pages and their neighbours included.
 */
#define SETUP start
#define TEARDOWN stop
#include "unit.h"

#include "mm/mm.h"
#include "mtrr_model.h"
#include "pool.h"

#define SIZE_2M (2 * MIB)
#define POOL_PAGES 8192

/* The SDM's bits once more, apart from include/vmx.h. */
#define RWX 7ULL
#define LARGE (1ULL << 7)
#define ADDRESS 0x000ffffffffff000ULL
#define TYPE(entry) ((enum memory_type)((entry) >> 3 & 7))
#define NOT_LEAF_BITS (~(RWX | 7ULL << 3 | LARGE | ADDRESS))

static struct range pool;

static int start(void **state)
{
    (void)state;
    pool = pool_new(POOL_PAGES);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    pool_free(pool);
    return 0;
}

/* Builds a map in a fresh pool; *used gets the pages that it took. */
static uint64_t build(const struct ept_request *q, uint64_t *used)
{
    page_pool_init(pool);

    uint64_t before = page_pool_free();
    uint64_t root = ept_build(q);

    *used = before - page_pool_free();
    return root;
}

static struct mtrr_state flat(enum memory_type type, uint32_t bits)
{
    return (struct mtrr_state){.default_type = MODEL_E | type, .physical_address_bits = bits};
}

static struct ept_request request(const struct mtrr_state *m)
{
    return (struct ept_request){.mtrr = m,
                                .address_bits = m->physical_address_bits,
                                .page_1g = true,
                                .page_2m = true,
                                .top = 4 * GIB};
}

static struct ept_request request_hiding(const struct mtrr_state *m, const struct range *hidden)
{
    struct ept_request q = request(m);

    q.hidden = hidden;
    q.hidden_count = 1;
    return q;
}

static void assert_mapped(uint64_t root, uint64_t address, uint64_t page, enum memory_type type)
{
    uint64_t bytes = 0;
    uint64_t entry = ept_lookup(root, address, &bytes);

    if ((entry & RWX) != RWX || bytes != page || TYPE(entry) != type ||
        (entry & ADDRESS) != address - address % page || (entry & NOT_LEAF_BITS) != 0 ||
        !(entry & LARGE) != (page == PAGE_SIZE))
        fail_msg("%#lx: entry %#lx of %#lx bytes, wanted type %d, %#lx bytes", address, entry,
                 bytes, (int)type, page);
}

static void assert_unmapped(uint64_t root, uint64_t address)
{
    uint64_t bytes = 1;

    if (ept_lookup(root, address, &bytes) != 0)
        fail_msg("%#lx is mapped", address);
}

TEST(test_flat_machine)
{
    struct mtrr_state m = flat(MEMORY_WB, 39);
    struct ept_request q = request(&m);
    uint64_t used, root = build(&q, &used);

    assert_int_not_equal(root, 0);
    assert_int_equal(root % PAGE_SIZE, 0);
    assert_int_equal(used, 4); /* PML4, one PDPT, a PD and a PT for the first 2 MiB */
    assert_mapped(root, 0, PAGE_SIZE, MEMORY_WB);
    assert_mapped(root, SIZE_2M - 1, PAGE_SIZE, MEMORY_WB);
    assert_mapped(root, SIZE_2M, SIZE_2M, MEMORY_WB);
    assert_mapped(root, GIB - 1, SIZE_2M, MEMORY_WB);
    assert_mapped(root, GIB, GIB, MEMORY_WB);
    assert_mapped(root, (1ULL << 39) - 1, GIB, MEMORY_WB);
    assert_unmapped(root, 1ULL << 39);
    assert_unmapped(root, 1ULL << 48);
    assert_unmapped(root, UINT64_MAX);
}

TEST(test_reach)
{
    struct mtrr_state m = flat(MEMORY_WB, 39);
    struct ept_request q = request(&m);

    assert_int_equal(ept_get_address_limit(&q), 1ULL << 39);
    q.address_bits = 52;
    assert_int_equal(ept_get_address_limit(&q), 1ULL << 48); /* four levels */
    q.page_1g = false;
    assert_int_equal(ept_get_address_limit(&q), 512 * GIB);
    q.top = 600 * GIB + 1;
    assert_int_equal(ept_get_address_limit(&q), 601 * GIB);
    q.top = UINT64_MAX;
    assert_int_equal(ept_get_address_limit(&q), 1ULL << 48);
    q.top = 600 * GIB;
    q.address_bits = 36;
    assert_int_equal(ept_get_address_limit(&q), 64 * GIB);
    q.page_2m = false;
    q.address_bits = 39;
    q.top = GIB;
    assert_int_equal(ept_get_address_limit(&q), 4 * GIB);
    q.top = 5 * GIB - 1;
    assert_int_equal(ept_get_address_limit(&q), 5 * GIB);
}

TEST(test_all_of_48_bits)
{
    struct mtrr_state m = flat(MEMORY_WB, 52);
    struct ept_request q = request(&m);
    uint64_t used, root = build(&q, &used);

    assert_int_not_equal(root, 0);
    assert_int_equal(used, 1 + 512 + 2);
    assert_mapped(root, (1ULL << 48) - 1, GIB, MEMORY_WB);
    assert_unmapped(root, 1ULL << 48);
}

TEST(test_without_1g_pages)
{
    struct mtrr_state m = flat(MEMORY_WB, 46);
    struct ept_request q = request(&m);
    uint64_t used, root;

    q.page_1g = false;
    root = build(&q, &used);
    assert_int_not_equal(root, 0);
    assert_int_equal(used, 1 + 1 + 512 + 1);
    assert_mapped(root, 512 * GIB - 1, SIZE_2M, MEMORY_WB);
    assert_unmapped(root, 512 * GIB);
}

TEST(test_types_that_differ_inside_large_pages)
{
    struct mtrr_state m = flat(MEMORY_WB, 39);
    struct ept_request q = request(&m);
    uint64_t used, root;

    /* One UC page at 5 GiB + 4 MiB, and WC memory of 1 GiB. */
    m.variable_count = 2;
    m.variable[0].base = (5 * GIB + 4 * MIB) | MEMORY_UC;
    m.variable[0].mask = ((1ULL << 39) - PAGE_SIZE) | MODEL_V;
    m.variable[1].base = (7 * GIB) | MEMORY_WC;
    m.variable[1].mask = ((1ULL << 39) - GIB) | MODEL_V;
    root = build(&q, &used);
    assert_int_equal(used, 6);
    assert_mapped(root, 5 * GIB + 4 * MIB - 1, SIZE_2M, MEMORY_WB);
    assert_mapped(root, 5 * GIB + 4 * MIB, PAGE_SIZE, MEMORY_UC);
    assert_mapped(root, 5 * GIB + 4 * MIB + PAGE_SIZE, PAGE_SIZE, MEMORY_WB);
    assert_mapped(root, 5 * GIB + 6 * MIB, SIZE_2M, MEMORY_WB);
    assert_mapped(root, 6 * GIB, GIB, MEMORY_WB);
    assert_mapped(root, 7 * GIB, GIB, MEMORY_WC);
    assert_mapped(root, 8 * GIB, GIB, MEMORY_WB);
}

TEST(test_hidden_ranges)
{
    struct mtrr_state m = flat(MEMORY_WB, 39);
    struct ept_request q = request(&m);
    const struct range hidden[] = {
        {3 * GIB + 8 * MIB, 4 * MIB},             /* whole large pages */
        {6 * GIB + 5 * PAGE_SIZE, 7 * PAGE_SIZE}, /* inside one */
        {9 * GIB + 100, 1},                       /* one byte hides its page */
        {11 * GIB, 2 * GIB},                      /* whole huge pages */
        {14 * GIB, 0},                            /* nothing */
    };
    uint64_t used, root;

    q.hidden = hidden;
    q.hidden_count = COUNT(hidden);
    root = build(&q, &used);
    assert_int_not_equal(root, 0);

    assert_mapped(root, 3 * GIB + 8 * MIB - 1, SIZE_2M, MEMORY_WB);
    for (uint64_t a = 0; a < 4 * MIB; a += PAGE_SIZE)
        assert_unmapped(root, 3 * GIB + 8 * MIB + a);
    assert_mapped(root, 3 * GIB + 12 * MIB, SIZE_2M, MEMORY_WB);

    assert_mapped(root, 6 * GIB + 5 * PAGE_SIZE - 1, PAGE_SIZE, MEMORY_WB);
    for (uint64_t page = 5; page < 12; page++)
        assert_unmapped(root, 6 * GIB + page * PAGE_SIZE);
    assert_mapped(root, 6 * GIB + 12 * PAGE_SIZE, PAGE_SIZE, MEMORY_WB);

    assert_mapped(root, 9 * GIB - 1, GIB, MEMORY_WB);
    assert_unmapped(root, 9 * GIB);
    assert_mapped(root, 9 * GIB + PAGE_SIZE, PAGE_SIZE, MEMORY_WB);

    assert_mapped(root, 11 * GIB - 1, GIB, MEMORY_WB);
    assert_unmapped(root, 11 * GIB);
    assert_unmapped(root, 13 * GIB - 1);
    assert_mapped(root, 13 * GIB, GIB, MEMORY_WB);
    assert_mapped(root, 14 * GIB, GIB, MEMORY_WB);
    assert_true(used <= ept_pages_needed(&q));
}

/* Of the pool, which is hidden, the rings of the trace: read, and nothing else. */
TEST(test_readable_range)
{
    struct mtrr_state m = flat(MEMORY_WB, 39);
    const struct range hidden = {GIB, 8 * MIB};
    struct ept_request q = request_hiding(&m, &hidden);
    uint64_t used, root, bytes;

    q.readable = (struct range){GIB + 3 * PAGE_SIZE, 4 * MIB + PAGE_SIZE};
    root = build(&q, &used);
    assert_int_not_equal(root, 0);
    assert_true(used <= ept_pages_needed(&q));
    assert_mapped(root, GIB - 1, SIZE_2M, MEMORY_WB);
    for (uint64_t a = GIB; a < GIB + 8 * MIB; a += PAGE_SIZE) {
        if (a - q.readable.base >= q.readable.size) {
            assert_unmapped(root, a);
            continue;
        }
        uint64_t entry = ept_lookup(root, a, &bytes);
        assert_int_equal(entry & RWX, 1);
        assert_int_equal(entry & ADDRESS, a - a % bytes);
        assert_int_equal(TYPE(entry), MEMORY_WB);
    }
    assert_mapped(root, GIB + 8 * MIB, SIZE_2M, MEMORY_WB);
}

TEST(test_hidden_range_at_the_very_end)
{
    struct mtrr_state m = flat(MEMORY_WB, 36);
    const struct range hidden = {(1ULL << 36) - PAGE_SIZE, UINT64_MAX}; /* wraps around */
    struct ept_request q = request_hiding(&m, &hidden);
    uint64_t used, root;

    root = build(&q, &used);
    assert_mapped(root, (1ULL << 36) - PAGE_SIZE - 1, PAGE_SIZE, MEMORY_WB);
    assert_unmapped(root, (1ULL << 36) - 1);
    assert_mapped(root, 0, PAGE_SIZE, MEMORY_WB);
}

static void build_flat_map(void)
{
    struct mtrr_state m = flat(MEMORY_WB, 39);
    struct ept_request q = request(&m);

    assert_int_not_equal(ept_build(&q), 0);
}

TEST(test_out_of_pages)
{
    for (uint64_t pages = 0; pages < 4; pages++) {
        page_pool_init((struct range){pool.base, (1 + pages) * PAGE_SIZE});
        assert_uses_up_pool(build_flat_map);
    }
    page_pool_init((struct range){pool.base, (1 + 4) * PAGE_SIZE});
    build_flat_map();
}

/* A processor without large EPT pages: each GiB costs 512 tables, in the bound as well. */
TEST(test_only_small_pages)
{
    struct mtrr_state m = flat(MEMORY_WB, 32);
    const struct range hidden = {GIB + PAGE_SIZE, GIB};
    struct ept_request q = request_hiding(&m, &hidden);
    uint64_t used, root;

    q.page_1g = q.page_2m = false;
    root = build(&q, &used);
    assert_int_not_equal(root, 0);
    assert_true(used <= ept_pages_needed(&q));
    assert_mapped(root, GIB, PAGE_SIZE, MEMORY_WB);
    assert_unmapped(root, GIB + PAGE_SIZE);
    assert_mapped(root, 2 * GIB + PAGE_SIZE, PAGE_SIZE, MEMORY_WB);
    assert_unmapped(root, 4 * GIB);
}

/* ---- random machines ---- */

#define HIDDEN_MAX 4

struct machine {
    struct mtrr_state mtrr;
    struct range hidden[HIDDEN_MAX];
    struct ept_request q;
    uint64_t root;
};

static bool is_hidden(const struct machine *x, uint64_t page)
{
    for (uint32_t i = 0; i < x->q.hidden_count; i++) {
        uint64_t first = x->hidden[i].base, end = first + x->hidden[i].size;

        if (end > first && page + PAGE_SIZE > first && page < end)
            return true;
    }
    return false;
}

/* One page of the map against the model. */
static void check_page(const struct machine *x, unsigned number, uint64_t address)
{
    uint64_t page = address - address % PAGE_SIZE, bytes = 0;
    uint64_t entry = ept_lookup(x->root, page, &bytes);

    if (page >= ept_get_address_limit(&x->q) || is_hidden(x, page)) {
        if (entry != 0)
            fail_msg("machine %u: %#lx is mapped by %#lx", number, page, entry);
        return;
    }
    if ((entry & RWX) != RWX || (entry & ADDRESS) != page - page % bytes ||
        TYPE(entry) != model_type(&x->mtrr, page) || (page < SIZE_2M && bytes != PAGE_SIZE) ||
        (bytes == GIB && !x->q.page_1g) || (bytes == SIZE_2M && !x->q.page_2m))
        fail_msg("machine %u: %#lx: entry %#lx of %#lx bytes, wanted type %d", number, page, entry,
                 bytes, (int)model_type(&x->mtrr, page));
}

static void check_around(const struct machine *x, unsigned number, uint64_t address)
{
    uint64_t from = address > 4 * PAGE_SIZE ? address - 4 * PAGE_SIZE : 0;

    for (uint64_t a = from; a < address + 4 * PAGE_SIZE; a += PAGE_SIZE)
        check_page(x, number, a);
}

static void random_machine(struct machine *x)
{
    uint32_t bits = 36 + (uint32_t)random_below(5);
    uint64_t limit = 1ULL << (random_below(2) ? bits : 28 + random_below(6));

    x->mtrr = model_random(bits, limit, random_below(8) == 0 && limit < GIB);
    x->q = (struct ept_request){
        .mtrr = &x->mtrr,
        .hidden = x->hidden,
        .address_bits = bits,
        .hidden_count = (uint32_t)random_below(HIDDEN_MAX + 1),
        .page_1g = random_below(2),
        .page_2m = true,
        .top = random_below(1ULL << bits),
    };
    for (uint32_t i = 0; i < x->q.hidden_count; i++) {
        uint64_t unit = 1ULL << random_below(22);

        x->hidden[i].base = random_below(1ULL << (28 + random_below(bits - 27))) / unit * unit;
        x->hidden[i].size = random_below(3) ? random_below(64 * MIB) / unit * unit
                                            : random_below(3 * GIB);
    }
    if (x->q.hidden_count > 1 && random_below(3) == 0) /* neighbours share large pages */
        x->hidden[1].base = x->hidden[0].base + x->hidden[0].size;
}

TEST(test_random_machines)
{
    random_seed(3);
    for (unsigned number = 0; number < 300; number++) {
        struct machine x;
        uint64_t used;

        random_machine(&x);

        uint64_t needed = ept_pages_needed(&x.q);

        x.root = build(&x.q, &used);
        if (x.root == 0)
            fail_msg("machine %u: out of %u pages", number, POOL_PAGES);
        if (used > needed)
            fail_msg("machine %u: %lu pages used, bound %lu", number, used, needed);

        for (uint64_t page = 0; page < 2 * SIZE_2M; page += PAGE_SIZE)
            check_page(&x, number, page);
        for (uint32_t i = 0; i < x.q.hidden_count; i++) {
            uint64_t step = PAGE_SIZE << (x.hidden[i].size > 64 * MIB ? 6 : 0);

            check_around(&x, number, x.hidden[i].base);
            check_around(&x, number, x.hidden[i].base + x.hidden[i].size);
            for (uint64_t a = 0; a < x.hidden[i].size; a += step)
                check_page(&x, number, x.hidden[i].base + a);
        }
        for (uint32_t i = 0; i < x.mtrr.variable_count; i++) {
            uint64_t base = x.mtrr.variable[i].base & ADDRESS;
            uint64_t mask = x.mtrr.variable[i].mask & ADDRESS;

            check_around(&x, number, base);
            check_around(&x, number, base + (mask & -mask));
        }
        check_around(&x, number, ept_get_address_limit(&x.q));
        for (unsigned n = 0; n < 2000; n++)
            check_page(&x, number, random_below(1ULL << (22 + random_below(26))));
    }
}

/* The bound holds for every place of the hidden ranges, since only their count is read; without
 * any it is exact. */
TEST(test_bound_does_not_depend_on_place)
{
    random_seed(4);
    for (unsigned number = 0; number < 200; number++) {
        struct machine x;
        uint64_t used, needed;

        random_machine(&x);
        x.q.hidden = NULL; /* not placed yet */
        needed = ept_pages_needed(&x.q);
        x.q.hidden = x.hidden;
        assert_int_not_equal(build(&x.q, &used), 0);
        assert_true(used <= needed);
        x.q.hidden_count = 0;
        assert_int_not_equal(build(&x.q, &used), 0);
        assert_int_equal(used, ept_pages_needed(&x.q));
    }
}

/* The worst a hidden range can do: each end inside a 1 GiB page of its own. */
TEST(test_bound_is_reached)
{
    struct mtrr_state m = flat(MEMORY_WB, 39);
    const struct range hidden = {3 * GIB - 3 * PAGE_SIZE, GIB};
    struct ept_request q = request_hiding(&m, &hidden);
    uint64_t used;

    assert_int_not_equal(build(&q, &used), 0);
    assert_int_equal(used, ept_pages_needed(&q));
}
