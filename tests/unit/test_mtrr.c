/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Memory types from the MTRRs: each rule of the SDM on its own, then random register sets against
 * the naive model, page by page.
 */
#include "unit.h"

#include "mm/mm.h"
#include "mtrr_model.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define BITS_39 39
#define ENABLED MODEL_E

static struct mtrr_state enabled(enum memory_type default_type)
{
    return (struct mtrr_state){.default_type = ENABLED | default_type,
                               .physical_address_bits = BITS_39};
}

static void add(struct mtrr_state *m, uint64_t base, uint64_t size, enum memory_type type)
{
    m->variable[m->variable_count].base = base | type;
    m->variable[m->variable_count].mask = ((1ULL << BITS_39) - size) | MODEL_V;
    m->variable_count++;
}

static void assert_type(const struct mtrr_state *m, uint64_t base, uint64_t size,
                        enum memory_type wanted)
{
    enum memory_type type = 7;

    assert_true(mtrr_lookup_type(m, base, size, &type));
    assert_int_equal(type, wanted);
}

static void assert_mixed(const struct mtrr_state *m, uint64_t base, uint64_t size)
{
    enum memory_type type = 7;

    assert_false(mtrr_lookup_type(m, base, size, &type));
    assert_int_equal(type, 7); /* left alone */
}

TEST(test_disabled_is_uc)
{
    struct mtrr_state m = enabled(MEMORY_WB);

    add(&m, 0, GIB, MEMORY_WB);
    m.default_type &= ~ENABLED;
    assert_type(&m, 0, 1ULL << BITS_39, MEMORY_UC);
}

TEST(test_default_type)
{
    struct mtrr_state m = enabled(MEMORY_WB);

    assert_type(&m, 0, 1ULL << BITS_39, MEMORY_WB);
    m = enabled(MEMORY_WT);
    add(&m, GIB, GIB, MEMORY_WB);
    m.variable[0].mask &= ~MODEL_V; /* not in use */
    assert_type(&m, GIB, GIB, MEMORY_WT);
}

TEST(test_variable_range_edges)
{
    struct mtrr_state m = enabled(MEMORY_UC);

    add(&m, 2 * GIB, GIB, MEMORY_WB);
    assert_type(&m, 2 * GIB, GIB, MEMORY_WB);
    assert_type(&m, 2 * GIB - PAGE_SIZE, PAGE_SIZE, MEMORY_UC);
    assert_type(&m, 3 * GIB, PAGE_SIZE, MEMORY_UC);
    assert_mixed(&m, 2 * GIB - PAGE_SIZE, 2 * PAGE_SIZE);
    assert_mixed(&m, 3 * GIB - PAGE_SIZE, 2 * PAGE_SIZE);
    assert_mixed(&m, 0, 1ULL << BITS_39);
}

TEST(test_overlaps)
{
    static const struct {
        enum memory_type a, b, result;
    } rules[] = {
        {MEMORY_WB, MEMORY_WB, MEMORY_WB}, {MEMORY_UC, MEMORY_WB, MEMORY_UC},
        {MEMORY_UC, MEMORY_WC, MEMORY_UC}, {MEMORY_WT, MEMORY_WB, MEMORY_WT},
        {MEMORY_WC, MEMORY_WB, MEMORY_UC}, {MEMORY_WP, MEMORY_WT, MEMORY_UC},
        {MEMORY_WC, MEMORY_WC, MEMORY_WC},
    };

    for (unsigned i = 0; i < COUNT(rules); i++) {
        for (unsigned swap = 0; swap < 2; swap++) {
            struct mtrr_state m = enabled(MEMORY_WP);

            add(&m, 0, 4 * GIB, swap ? rules[i].b : rules[i].a);
            add(&m, 2 * GIB, GIB, swap ? rules[i].a : rules[i].b);
            assert_type(&m, 2 * GIB, GIB, rules[i].result);
            assert_type(&m, 0, 2 * GIB, swap ? rules[i].b : rules[i].a);
        }
    }
}

/* Two matching ranges that add up to no change, though neither covers the whole. */
TEST(test_uniform_across_registers)
{
    struct mtrr_state m = enabled(MEMORY_UC);

    add(&m, 0, 2 * GIB, MEMORY_WB);
    add(&m, 2 * GIB, GIB, MEMORY_WB);
    add(&m, 3 * GIB, GIB, MEMORY_WB);
    assert_type(&m, 0, 4 * GIB, MEMORY_WB);
    assert_type(&m, GIB + PAGE_SIZE, 2 * GIB + 3 * PAGE_SIZE, MEMORY_WB);
    assert_mixed(&m, GIB, 3 * GIB + PAGE_SIZE);
}

TEST(test_fixed_ranges)
{
    struct mtrr_state m = enabled(MEMORY_WB);

    m.capability = MODEL_FIX;
    m.default_type |= MODEL_FE;
    for (unsigned i = 0; i < 11; i++)
        m.fixed[i] = 0x0606060606060606ULL;
    m.fixed[0] = 0x0606060606060406ULL;  /* 10000..1ffff WT */
    m.fixed[2] = 0;                      /* a0000..bffff UC */
    m.fixed[10] = 0x0506060606060606ULL; /* ff000..fffff WP */
    assert_type(&m, 0, 0x10000, MEMORY_WB);
    assert_type(&m, 0x10000, 0x10000, MEMORY_WT);
    assert_type(&m, 0x20000, 0x80000, MEMORY_WB);
    assert_type(&m, 0xa0000, 0x20000, MEMORY_UC);
    assert_type(&m, 0xc0000, 0x3f000, MEMORY_WB);
    assert_type(&m, 0xff000, 0x1000, MEMORY_WP);
    assert_type(&m, 0x100000, 0x100000, MEMORY_WB);
    assert_mixed(&m, 0, 0x20000);
    assert_mixed(&m, 0xff000, 0x2000);
    assert_mixed(&m, 0, 2 * MIB);

    /* They hide the variable ranges, also UC ones. */
    add(&m, 0, 2 * MIB, MEMORY_UC);
    assert_type(&m, 0x20000, 0x80000, MEMORY_WB);
    assert_type(&m, MIB, MIB, MEMORY_UC);

    /* Each of the two bits switches them off. */
    m.default_type &= ~MODEL_FE;
    assert_type(&m, 0, 2 * MIB, MEMORY_UC);
    m.default_type |= MODEL_FE;
    m.capability = 0;
    assert_type(&m, 0, 2 * MIB, MEMORY_UC);
}

TEST(test_bits_past_maxphyaddr_are_ignored)
{
    struct mtrr_state m = enabled(MEMORY_UC);

    add(&m, 4 * GIB, 4 * GIB, MEMORY_WB);
    m.variable[0].mask |= ~0ULL << BITS_39;
    assert_type(&m, 4 * GIB, 4 * GIB, MEMORY_WB);
}

TEST(test_bad_ranges)
{
    struct mtrr_state m = enabled(MEMORY_WB);

    assert_mixed(&m, 0, 0);
    assert_mixed(&m, 1ULL << BITS_39, PAGE_SIZE);
    assert_mixed(&m, (1ULL << BITS_39) - PAGE_SIZE, 2 * PAGE_SIZE);
    assert_mixed(&m, PAGE_SIZE, UINT64_MAX);
    assert_mixed(&m, UINT64_MAX, UINT64_MAX);
}

/* A mask may have holes: this one matches every second MiB below 1 GiB. */
TEST(test_mask_with_holes)
{
    struct mtrr_state m = enabled(MEMORY_WB);

    m.variable[0].base = MIB | MEMORY_UC;
    m.variable[0].mask = (((1ULL << BITS_39) - GIB) | MIB) | MODEL_V;
    m.variable_count = 1;
    assert_type(&m, 0, MIB, MEMORY_WB);
    assert_type(&m, MIB, MIB, MEMORY_UC);
    assert_type(&m, 1022 * MIB, MIB, MEMORY_WB);
    assert_type(&m, 1023 * MIB, MIB, MEMORY_UC);
    assert_type(&m, GIB, GIB, MEMORY_WB);
    assert_mixed(&m, 511 * MIB, 2 * MIB);
}

/* Random sets over a space of 16 MiB, against the model on each of its pages. */
TEST(test_random_sets)
{
    const uint64_t limit = 16 * MIB;
    unsigned uniform = 0, mixed = 0;

    random_seed(1);
    for (unsigned set = 0; set < 400; set++) {
        struct mtrr_state m = model_random(36, limit, true);

        for (unsigned n = 0; n < 60; n++) {
            uint64_t base = random_below(limit / PAGE_SIZE) * PAGE_SIZE;
            uint64_t pages = 1 + random_below((limit - base) / PAGE_SIZE);
            enum memory_type first = model_type(&m, base), type;
            bool one = true;

            if (n % 2)
                pages = 1 + pages % 64;
            for (uint64_t i = 1; i < pages && one; i++)
                one = model_type(&m, base + i * PAGE_SIZE) == first;

            bool found = mtrr_lookup_type(&m, base, pages * PAGE_SIZE, &type);

            if (found != one || (one && type != first))
                fail_msg("set %u: %#lx+%lu pages: found %d type %d, wanted %d type %d", set, base,
                         pages, found, found ? (int)type : -1, one, (int)first);
            if (one)
                uniform++;
            else
                mixed++;
        }
    }
    assert_true(uniform > 1000 && mixed > 1000); /* both answers were put to the test */
}

/* What a real server has, asked over its whole address space: must be quick by construction. */
TEST(test_huge_ranges)
{
    struct mtrr_state m = {.default_type = ENABLED | MEMORY_WB, .physical_address_bits = 52};

    m.variable_count = MTRR_VARIABLE_MAX;
    for (uint64_t i = 0; i < MTRR_VARIABLE_MAX; i++) {
        m.variable[i].base = (i << 47) | MEMORY_UC;
        m.variable[i].mask = ((1ULL << 52) - (1ULL << 47)) | MODEL_V;
    }
    assert_type(&m, 0, 1ULL << 52, MEMORY_UC);
    m.variable[MTRR_VARIABLE_MAX - 1].mask |= 0x1000; /* one bit more: half of the pages */
    assert_mixed(&m, 0, 1ULL << 52);
    assert_type(&m, 0, 31ULL << 47, MEMORY_UC);
}
