/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests of the guest's memory map: fixed cases, and random maps against a model that looks at
 * every page alone.
 */
#include "unit.h"

#include "guest/e820.h"

/* Firmware's descriptors may be longer than the structure that the specification names. */
struct wide_descriptor {
    uint32_t type, padding;
    uint64_t base, virtual_base, pages, attribute;
    uint64_t more;
};

#define LOADER_CODE 1
#define LOADER_DATA 2
#define BOOT_DATA 4
#define RUNTIME_DATA 6
#define CONVENTIONAL 7
#define UNUSABLE 8
#define ACPI_RECLAIM 9
#define ACPI_NVS 10
#define MMIO 11
#define PERSISTENT 14
#define UNKNOWN 0x80000001u
#define SPECIFIC_PURPOSE (1ULL << 18)

#define MANY 64

static struct efi_map map_of(struct wide_descriptor *d, size_t count)
{
    return (struct efi_map){
        .entries = d, .size = count * sizeof(*d), .descriptor_size = sizeof(*d)};
}

static void expect(const struct boot_e820_entry *e, uint64_t addr, uint64_t size, uint32_t type)
{
    assert_int_equal(e->addr, addr);
    assert_int_equal(e->size, size);
    assert_int_equal(e->type, type);
}

TEST(test_types_and_merging)
{
    struct wide_descriptor d[] = {
        {.type = CONVENTIONAL, .base = 0x100000, .pages = 0x10},
        {.type = BOOT_DATA, .base = 0x110000, .pages = 0x10},
        {.type = LOADER_CODE, .base = 0x120000, .pages = 0x10},
        {.type = ACPI_RECLAIM, .base = 0x130000, .pages = 1},
        {.type = ACPI_NVS, .base = 0x131000, .pages = 1},
        {.type = RUNTIME_DATA, .base = 0x132000, .pages = 1},
        {.type = MMIO, .base = 0x133000, .pages = 1},
        {.type = UNUSABLE, .base = 0x134000, .pages = 1},
        {.type = PERSISTENT, .base = 0x135000, .pages = 1},
        {.type = UNKNOWN, .base = 0x136000, .pages = 1},
        {.type = CONVENTIONAL, .base = 0x137000, .pages = 1, .attribute = SPECIFIC_PURPOSE},
        {.type = LOADER_DATA, .base = 0x139000, .pages = 1}, /* after a hole */
    };
    struct efi_map map = map_of(d, COUNT(d));
    struct boot_e820_entry out[MANY];

    assert_int_equal(e820_build(&map, NULL, 0, out, MANY), 9);
    expect(&out[0], 0x100000, 0x30000, E820_RAM);
    expect(&out[1], 0x130000, 0x1000, E820_ACPI);
    expect(&out[2], 0x131000, 0x1000, E820_NVS);
    expect(&out[3], 0x132000, 0x2000, E820_RESERVED);
    expect(&out[4], 0x134000, 0x1000, E820_UNUSABLE);
    expect(&out[5], 0x135000, 0x1000, E820_PMEM);
    expect(&out[6], 0x136000, 0x1000, E820_RESERVED);
    expect(&out[7], 0x137000, 0x1000, E820_SOFT_RESERVED);
    expect(&out[8], 0x139000, 0x1000, E820_RAM);
}

TEST(test_unsorted)
{
    struct wide_descriptor d[] = {
        {.type = CONVENTIONAL, .base = 0x100000000, .pages = 0x1000},
        {.type = CONVENTIONAL, .base = 0, .pages = 0xa0},
    };
    struct efi_map map = map_of(d, 2);
    struct boot_e820_entry out[MANY];

    assert_int_equal(e820_build(&map, NULL, 0, out, MANY), 2);
    expect(&out[0], 0, 0xa0000, E820_RAM);
    expect(&out[1], 0x100000000, 0x1000000, E820_RAM);
}

TEST(test_overlays_split)
{
    struct wide_descriptor d[] = {{.type = CONVENTIONAL, .base = 0x100000, .pages = 0x100}};
    const struct e820_overlay overlays[] = {
        {{0x140000, 0x2000}, E820_RESERVED}, /* in the middle */
        {{0x100000, 0x1000}, E820_ACPI},     /* at the start */
        {{0x1ff000, 0x3000}, E820_RESERVED}, /* over the end, into nothing */
        {{0x150000, 0}, E820_RESERVED},      /* empty */
    };
    struct efi_map map = map_of(d, 1);
    struct boot_e820_entry out[MANY];

    assert_int_equal(e820_build(&map, overlays, 4, out, MANY), 5);
    expect(&out[0], 0x100000, 0x1000, E820_ACPI);
    expect(&out[1], 0x101000, 0x3f000, E820_RAM);
    expect(&out[2], 0x140000, 0x2000, E820_RESERVED);
    expect(&out[3], 0x142000, 0xbd000, E820_RAM);
    expect(&out[4], 0x1ff000, 0x3000, E820_RESERVED);
}

TEST(test_contradiction_is_not_ram)
{
    struct wide_descriptor d[] = {
        {.type = CONVENTIONAL, .base = 0x100000, .pages = 0x10},
        {.type = RUNTIME_DATA, .base = 0x104000, .pages = 2},
        {.type = CONVENTIONAL, .base = 0x105000, .pages = 0x10},
    };
    struct efi_map map = map_of(d, 3);
    struct boot_e820_entry out[MANY];

    assert_int_equal(e820_build(&map, NULL, 0, out, MANY), 3);
    expect(&out[0], 0x100000, 0x4000, E820_RAM);
    expect(&out[1], 0x104000, 0x2000, E820_RESERVED);
    expect(&out[2], 0x106000, 0xf000, E820_RAM);
}

TEST(test_overflow)
{
    struct wide_descriptor d[10];
    struct efi_map map = map_of(d, 10);

    for (size_t i = 0; i < 10; i++)
        d[i] = (struct wide_descriptor){.type = CONVENTIONAL, .base = i << 20, .pages = 1};
    for (uint64_t limit = 0; limit <= 12; limit++) {
        struct boot_e820_entry *out = malloc(limit * sizeof(*out) + (limit == 0));
        /* ASan watches its end */
        assert_int_equal(e820_build(&map, NULL, 0, out, limit), limit < 10 ? limit + 1 : 10);
        free(out);
    }
}

TEST(test_end_of_addresses)
{
    struct wide_descriptor d[] = {
        {.type = MMIO, .base = 0xfffffffffffff000, .pages = 1},
        {.type = CONVENTIONAL, .base = 0x1000, .pages = UINT64_MAX},
        {.type = CONVENTIONAL, .base = 0x5000, .pages = 0},
    };
    struct efi_map map = map_of(d, 3);
    struct boot_e820_entry out[MANY];
    uint64_t count = e820_build(&map, NULL, 0, out, MANY);

    assert_true(count >= 1 && count <= MANY);
    expect(&out[0], 0x1000, out[0].size, E820_RAM);
    for (uint64_t i = 1; i < count; i++)
        assert_true(out[i].addr >= out[i - 1].addr + out[i - 1].size);
}

/* ---- random maps of a small address space ---- */

#define PAGES 96

static uint32_t seed = 20;
static uint32_t next_random(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static uint32_t wanted_type(const struct wide_descriptor *d, size_t count,
                            const struct e820_overlay *overlays, size_t overlay_count,
                            uint64_t page)
{
    static const uint32_t types[] = {
        [LOADER_CODE] = E820_RAM,  [LOADER_DATA] = E820_RAM,       [BOOT_DATA] = E820_RAM,
        [CONVENTIONAL] = E820_RAM, [RUNTIME_DATA] = E820_RESERVED, [ACPI_NVS] = E820_NVS,
        [MMIO] = E820_RESERVED};
    uint32_t type = 0;
    for (size_t i = 0; i < overlay_count; i++) {
        uint64_t first = overlays[i].range.base >> 12, n = overlays[i].range.size >> 12;
        if (page >= first && page < first + n)
            return overlays[i].type;
    }
    for (size_t i = 0; i < count; i++) {
        if (page < d[i].base >> 12 || page >= (d[i].base >> 12) + d[i].pages)
            continue;
        if (type == 0 || type == E820_RAM)
            type = types[d[i].type];
    }
    return type;
}

TEST(test_random)
{
    static const uint32_t efi_types[] = {LOADER_CODE,  LOADER_DATA, BOOT_DATA, RUNTIME_DATA,
                                         CONVENTIONAL, ACPI_NVS,    MMIO};
    for (int round = 0; round < 3000; round++) {
        struct wide_descriptor d[12];
        struct e820_overlay overlays[3];
        struct boot_e820_entry out[MANY];
        size_t count = next_random(12), overlay_count = next_random(4);
        for (size_t i = 0; i < count; i++)
            d[i] = (struct wide_descriptor){.type = efi_types[next_random(7)],
                                            .base = (uint64_t)next_random(64) << 12,
                                            .pages = next_random(24)};
        for (size_t i = 0; i < overlay_count; i++)
            overlays[i] = (struct e820_overlay){
                {(uint64_t)next_random(64) << 12, (uint64_t)next_random(24) << 12}, E820_RESERVED};
        struct efi_map map = map_of(d, count);
        uint64_t n = e820_build(&map, overlays, overlay_count, out, MANY);
        assert_true(n <= e820_entries_max(count, overlay_count));

        for (uint64_t page = 0; page < PAGES; page++) {
            uint32_t found = 0;
            for (uint64_t i = 0; i < n; i++) {
                if (page << 12 >= out[i].addr && page << 12 < out[i].addr + out[i].size) {
                    assert_int_equal(found, 0); /* no overlap */
                    found = out[i].type;
                }
            }
            assert_int_equal(found, wanted_type(d, count, overlays, overlay_count, page));
        }
        for (uint64_t i = 1; i < n; i++) {
            uint64_t end = out[i - 1].addr + out[i - 1].size;
            assert_true(out[i].addr >= end);
            assert_false(out[i].addr == end && out[i].type == out[i - 1].type);
        }
    }
}

TEST(test_hide_in_efi_map)
{
    struct wide_descriptor d[] = {
        {.type = LOADER_CODE, .base = 0x100000, .pages = 0x10},
        {.type = CONVENTIONAL, .base = 0x110000, .pages = 0x10},
        {.type = RUNTIME_DATA, .base = 0x120000, .pages = 0x10},
        {.type = CONVENTIONAL, .base = 0x130000, .pages = 0x10},
    };
    const struct range hidden[] = {{0x101000, 0x1000}, {0x11f000, 0x2000}};
    struct efi_map map = map_of(d, 4);

    efi_map_hide(&map, hidden, 2);
    assert_int_equal(d[0].type, 0);
    assert_int_equal(d[1].type, 0);
    assert_int_equal(d[2].type, RUNTIME_DATA); /* never usable: stays what it is */
    assert_int_equal(d[3].type, CONVENTIONAL);
}
