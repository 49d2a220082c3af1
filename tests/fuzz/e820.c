/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fuzz target: firmware's memory map into the guest's. Input: numbers of overlays and of entries,
 * the overlays, the descriptors.
 */
#include "guest/e820.h"

#include "fuzz.h"

#define OVERLAYS_MAX 4
#define DESCRIPTORS_MAX 64
#define CONVENTIONAL 7 /* EFI_MEMORY_TYPE: RAM that a guest may use is 1 to 4 and 7 */

struct descriptor {
    uint32_t type, padding;
    uint64_t base, virtual_base, pages, attribute;
    uint8_t more[8]; /* firmware's descriptors may be longer than the specification's */
};
#define SPECIFIED 40

static bool usable(uint32_t type) { return (type >= 1 && type <= 4) || type == CONVENTIONAL; }

/* The last address of a descriptor's range, which ends at the end of the address space at the
 * latest; false: it is empty. */
static bool last_of(const struct descriptor *d, uint64_t *last)
{
    uint64_t most = (UINT64_MAX - d->base) / PAGE_SIZE;
    uint64_t pages = d->pages < most ? d->pages : most;

    *last = d->base + pages * PAGE_SIZE - 1;
    return pages != 0;
}

static bool meet(uint64_t a, uint64_t a_last, uint64_t b, uint64_t b_last)
{
    return a <= b_last && b <= a_last;
}

static struct descriptor *at(const struct efi_map *map, uint64_t i)
{
    return (struct descriptor *)((uint8_t *)map->entries + i * map->descriptor_size);
}

static void check_table(const struct boot_e820_entry *e, uint64_t count, const struct efi_map *map,
                        const struct e820_overlay *overlays, uint64_t overlay_count)
{
    uint64_t descriptors = map->size / map->descriptor_size, last;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t end = e[i].addr + e[i].size;
        CHECK(e[i].size != 0 && end > e[i].addr, "entry %lu", (unsigned long)i);
        if (i > 0) {
            CHECK(e[i - 1].addr + e[i - 1].size <= e[i].addr, "entry %lu", (unsigned long)i);
            CHECK(e[i - 1].addr + e[i - 1].size < e[i].addr || e[i - 1].type != e[i].type,
                  "entry %lu is not merged", (unsigned long)i);
        }
        for (uint64_t k = 0; k < overlay_count; k++)
            CHECK(e[i].type != E820_RAM || overlays[k].range.size == 0 ||
                      !meet(e[i].addr, end - 1, overlays[k].range.base,
                            overlays[k].range.base + overlays[k].range.size - 1),
                  "entry %lu is RAM inside overlay %lu", (unsigned long)i, (unsigned long)k);
        bool backed = false;
        for (uint64_t k = 0; k < descriptors; k++) {
            if (!last_of(at(map, k), &last) || !meet(e[i].addr, end - 1, at(map, k)->base, last))
                continue;
            CHECK(e[i].type != E820_RAM || usable(at(map, k)->type),
                  "entry %lu is RAM, descriptor %lu is not", (unsigned long)i, (unsigned long)k);
            backed |= usable(at(map, k)->type);
        }
        CHECK(e[i].type != E820_RAM || backed, "entry %lu is RAM and nobody's", (unsigned long)i);
    }
    /* Nothing is left out: each descriptor's first address has an entry. */
    for (uint64_t k = 0; k < descriptors; k++) {
        bool found = !last_of(at(map, k), &last);
        for (uint64_t i = 0; i < count && !found; i++)
            found = at(map, k)->base >= e[i].addr && at(map, k)->base - e[i].addr < e[i].size;
        CHECK(found, "descriptor %lu has no entry", (unsigned long)k);
    }
}

static void check_hidden(struct efi_map *map, const struct e820_overlay *overlays,
                         uint64_t overlay_count)
{
    uint64_t descriptors = map->size / map->descriptor_size, last;
    uint8_t *before = exactly(map->entries, map->size);
    struct range ranges[OVERLAYS_MAX];
    uint64_t count = 0;

    for (uint64_t k = 0; k < overlay_count; k++)
        if (overlays[k].range.size != 0)
            ranges[count++] = overlays[k].range;
    efi_map_hide(map, ranges, count);
    for (uint64_t i = 0; i < descriptors; i++) {
        const struct descriptor *now = at(map, i);
        const struct descriptor *was = (struct descriptor *)(before + i * map->descriptor_size);
        bool touched = false, there = last_of(now, &last);
        for (uint64_t k = 0; k < count; k++)
            touched |= there &&
                       meet(now->base, last, ranges[k].base, ranges[k].base + ranges[k].size - 1);
        CHECK(!touched || !usable(now->type), "descriptor %lu is usable", (unsigned long)i);
        CHECK(touched || !there || now->type == was->type, "descriptor %lu is far away",
              (unsigned long)i);
        CHECK(memcmp((const uint8_t *)now + sizeof(now->type),
                     (const uint8_t *)was + sizeof(was->type),
                     map->descriptor_size - sizeof(was->type)) == 0,
              "descriptor %lu lost more than its type", (unsigned long)i);
    }
    free(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t shape = take_u8(&in);
    uint64_t overlay_count = shape % OVERLAYS_MAX, limit = take_u8(&in);
    uint64_t stride = shape & 0x80 ? sizeof(struct descriptor) : SPECIFIED;
    struct e820_overlay overlays[OVERLAYS_MAX];

    /* The hypervisor's own ranges: whole pages below 2^52. */
    for (uint64_t i = 0; i < overlay_count; i++)
        overlays[i] = (struct e820_overlay){
            .range = {take_u64(&in) % (1ULL << 52) / PAGE_SIZE * PAGE_SIZE,
                      (uint64_t)take_u16(&in) * PAGE_SIZE},
            .type = shape & 0x40 ? E820_ACPI : E820_RESERVED,
        };
    uint64_t descriptors = in.left / stride;
    if (descriptors > DESCRIPTORS_MAX)
        descriptors = DESCRIPTORS_MAX;
    struct efi_map map = {.entries = exactly(in.data, descriptors * stride),
                          .size = descriptors * stride,
                          .descriptor_size = stride,
                          .descriptor_version = 1};

    uint64_t bound = e820_entries_max(descriptors, overlay_count);
    struct boot_e820_entry *table = malloc(bound * sizeof(*table) + 1);
    CHECK(table != NULL, "%lu entries", (unsigned long)bound);
    uint64_t count = e820_build(&map, overlays, overlay_count, table, bound);
    CHECK(count <= bound, "%lu of %lu entries", (unsigned long)count, (unsigned long)bound);
    check_table(table, count, &map, overlays, overlay_count);

    /* With less room: the same, or a number that says so. */
    struct boot_e820_entry *less = malloc(limit * sizeof(*less) + 1);
    CHECK(less != NULL, "%lu entries", (unsigned long)limit);
    uint64_t fitted = e820_build(&map, overlays, overlay_count, less, limit);
    CHECK(fitted == (count <= limit ? count : limit + 1), "%lu of %lu entries",
          (unsigned long)fitted, (unsigned long)limit);
    CHECK(memcmp(less, table, (fitted <= limit ? fitted : limit) * sizeof(*less)) == 0 ||
              fitted > limit,
          "they differ");
    check_hidden(&map, overlays, overlay_count);
    free(less);
    free(table);
    free(map.entries);
    return 0;
}
