/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The reader of the ACPI table DMAR: units, regions, and lengths that lie. Each table is in a block
 * of its own size, so that the address sanitizer sees a read past its end.
 */
#include "unit.h"

#include "mm/dmar.h"
#include "random.h"

#define HEADER 48 /* bytes before the first structure */
#define DRHD 0
#define RMRR 1
#define ATSR 2
#define DRHD_LENGTH 16
#define RMRR_LENGTH 24
#define ROOM 8192

/* The table under construction. */
static uint8_t text[ROOM];
static uint32_t used;

static void put(uint32_t at, uint64_t value, unsigned bytes) { memcpy(&text[at], &value, bytes); }

static void begin(void)
{
    memset(text, 0, sizeof(text));
    used = HEADER;
}

/* A structure of `length` bytes that says it has `said`. */
static uint32_t add(uint16_t type, uint16_t said, uint32_t length)
{
    uint32_t at = used;

    put(at, type, 2);
    put(at + 2, said, 2);
    used += length;
    return at;
}

static void add_unit(uint64_t base, uint8_t size, uint32_t scope)
{
    uint16_t length = (uint16_t)(DRHD_LENGTH + scope);
    uint32_t at = add(DRHD, length, length);

    memset(&text[at + DRHD_LENGTH], 0xff, scope); /* scopes are not looked at */
    put(at + 5, size, 1);
    put(at + 8, base, 8);
}

static void add_region(uint64_t base, uint64_t limit, uint32_t scope)
{
    uint16_t length = (uint16_t)(RMRR_LENGTH + scope);
    uint32_t at = add(RMRR, length, length);

    put(at + 8, base, 8);
    put(at + 16, limit, 8);
}

/* Reads a copy of exactly `bytes` bytes whose header says `said`. */
static bool read_as(uint32_t bytes, uint32_t said, struct dmar *d)
{
    uint8_t *copy = malloc(bytes);

    memcpy(copy, text, bytes);
    memcpy(copy + 4, &said, 4);
    bool done = dmar_read(copy, d);
    free(copy);
    return done;
}

static bool read_table(struct dmar *d) { return read_as(used, used, d); }

static void assert_range(struct range r, uint64_t base, uint64_t size)
{
    assert_int_equal(r.base, base);
    assert_int_equal(r.size, size);
}

TEST(units_and_regions)
{
    struct dmar d;

    begin();
    add_unit(0xfed90000, 0, 8);
    add_region(0x7b800000, 0x7fffffff, 6);
    add(ATSR, 8, 8);
    add_unit(0x0000383ffff00000, 0, 0);
    add(0xffff, 4, 4);
    add_region(0x1000, 0x1000, 0);
    add_unit(0xfed91000, 0xf2, 20); /* only the low four bits are a size */
    assert_true(read_table(&d));
    assert_int_equal(d.unit_count, 3);
    assert_range(d.units[0], 0xfed90000, 4096);
    assert_range(d.units[1], 0x0000383ffff00000, 4096);
    assert_range(d.units[2], 0xfed91000, 4 * 4096);
    assert_int_equal(d.reserved_count, 2);
    assert_range(d.reserved[0], 0x7b800000, 0x4800000);
    assert_range(d.reserved[1], 0x1000, 1);
}

TEST(no_unit)
{
    struct dmar d;

    begin();
    assert_false(read_table(&d));
    add_region(0x1000, 0x1fff, 0);
    assert_false(read_table(&d));
    add_unit(0xfed90000, 0, 0);
    assert_true(read_table(&d));
    assert_int_equal(d.unit_count, 1);
}

TEST(bad_registers)
{
    static const uint64_t bad[] = {0, 0xfed90001, 0xfed90800};
    struct dmar d;

    for (unsigned i = 0; i < COUNT(bad); i++) {
        begin();
        add_unit(0xfed90000, 0, 0);
        add_unit(bad[i], 0, 0);
        assert_false(read_table(&d));
    }
}

TEST(region_that_ends_before_it_begins)
{
    struct dmar d;

    begin();
    add_unit(0xfed90000, 0, 0);
    add_region(0x2000, 0x1fff, 0);
    assert_false(read_table(&d));
}

/* A length of a structure: too short for its header, for its type, and past the table's end. */
TEST(lengths_of_structures)
{
    static const struct {
        uint16_t type, said;
    } bad[] = {{DRHD, 0},
               {DRHD, 3},
               {DRHD, 4},
               {DRHD, DRHD_LENGTH - 1},
               {DRHD, DRHD_LENGTH + 9},
               {RMRR, 0},
               {RMRR, RMRR_LENGTH - 1},
               {RMRR, RMRR_LENGTH + 1},
               {ATSR, 0},
               {ATSR, 3},
               {ATSR, RMRR_LENGTH + 1},
               {0xffff, 0xffff}};
    struct dmar d;

    for (unsigned i = 0; i < COUNT(bad); i++) {
        begin();
        add_unit(0xfed90000, 0, 0);
        uint32_t at = add(bad[i].type, bad[i].said, RMRR_LENGTH);
        put(at + 8, 0xfed91000, 8);
        put(at + 16, 0xfed91fff, 8);
        assert_false(read_table(&d));
    }
    /* Three bytes, and what follows them is right again. */
    begin();
    add(ATSR, 3, 3);
    add_unit(0xfed90000, 0, 0);
    assert_false(read_table(&d));
}

/* The table ends anywhere: the header's length is right, what follows is cut off. */
TEST(tables_that_end_early)
{
    struct dmar d;

    begin();
    add_unit(0xfed90000, 0, 6);
    uint32_t first = used;
    add_region(0x1000, 0x1fff, 0);
    uint32_t second = used;
    add_unit(0xfed91000, 0, 0);
    for (uint32_t bytes = 36; bytes <= used; bytes++)
        assert_int_equal(read_as(bytes, bytes, &d),
                         bytes == first || bytes == second || bytes == used);
}

TEST(more_than_there_is_room_for)
{
    struct dmar d;

    begin();
    for (unsigned i = 0; i < DMAR_UNITS_MAX; i++)
        add_unit(0xfed00000 + i * 0x1000, 0, 0);
    for (unsigned i = 0; i < DMAR_RESERVED_MAX; i++)
        add_region(i * 0x1000, i * 0x1000 + 0xfff, 0);
    uint32_t full = used;
    assert_true(read_table(&d));
    assert_int_equal(d.unit_count, DMAR_UNITS_MAX);
    assert_range(d.units[DMAR_UNITS_MAX - 1], 0xfed3f000, 4096);
    assert_int_equal(d.reserved_count, DMAR_RESERVED_MAX);
    add_unit(0xfee00000, 0, 0);
    assert_false(read_table(&d));
    used = full;
    add_region(0x100000, 0x100fff, 0);
    assert_false(read_table(&d));
}

/* Whatever the bytes are, nothing outside the table is read, and counts stay in their arrays. */
TEST(random_tables)
{
    struct dmar d;

    random_seed(1);
    for (unsigned round = 0; round < 200000; round++) {
        begin();
        while (used < 200 && random_below(8) != 0) {
            uint16_t length = (uint16_t)random_below(40);
            uint32_t at = add((uint16_t)random_below(4), length,
                              random_below(4) != 0 ? length : 16);
            for (uint32_t i = 4; i < 40; i++)
                text[at + i] = (uint8_t)random_below(256);
            put(at + 8, random_below(256) << 12, 8);
        }
        uint32_t bytes = 36 + (uint32_t)random_below(used - 35);
        bool done = read_as(bytes, bytes, &d);
        assert_true(d.unit_count <= DMAR_UNITS_MAX && d.reserved_count <= DMAR_RESERVED_MAX);
        assert_true(!done || d.unit_count > 0);
    }
}
