/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Converts the UEFI memory map to e820. Pure. (UEFI specification,
 * "EFI_BOOT_SERVICES.GetMemoryMap"; Linux, Documentation/arch/x86/boot.rst, "e820_table".)
 */
#include "guest/e820.h"

#include <stddef.h>

#include "bits.h"

struct efi_descriptor {
    uint32_t type;
    uint32_t padding;
    uint64_t base; /* physical */
    uint64_t virtual_base;
    uint64_t pages; /* number of 4 KiB pages */
    uint64_t attribute;
};
_Static_assert(sizeof(struct efi_descriptor) == 40, "EFI_MEMORY_DESCRIPTOR version 1");

/* Values of EFI_MEMORY_TYPE. Only the types that this file uses have names. */
enum {
    EFI_RESERVED,
    EFI_LOADER_CODE,
    EFI_LOADER_DATA,
    EFI_BOOT_SERVICES_CODE,
    EFI_BOOT_SERVICES_DATA,
    EFI_CONVENTIONAL = 7,
    EFI_UNUSABLE,
    EFI_ACPI_RECLAIM,
    EFI_ACPI_NVS,
    EFI_PERSISTENT = 14,
};
#define EFI_ATTRIBUTE_SPECIFIC_PURPOSE BIT(18)

#define NOTHING 0 /* no entry covers the address */

static struct efi_descriptor *descriptor_at(const struct efi_map *map, uint64_t index)
{
    return (struct efi_descriptor *)((uint8_t *)map->entries + index * map->descriptor_size);
}

static uint64_t descriptor_count(const struct efi_map *map)
{
    return map->size / map->descriptor_size;
}

static struct range descriptor_range(const struct efi_descriptor *d)
{
    /* Cut a size that runs past the end of the address space. */
    uint64_t most = (UINT64_MAX - d->base) / PAGE_SIZE;
    return (struct range){d->base, (d->pages < most ? d->pages : most) * PAGE_SIZE};
}

static bool is_usable_efi_type(uint32_t efi_type)
{
    return (efi_type >= EFI_LOADER_CODE && efi_type <= EFI_BOOT_SERVICES_DATA) ||
           efi_type == EFI_CONVENTIONAL;
}

static uint32_t e820_type(const struct efi_descriptor *d)
{
    static const uint8_t types[] = {[EFI_UNUSABLE] = E820_UNUSABLE,
                                    [EFI_ACPI_RECLAIM] = E820_ACPI,
                                    [EFI_ACPI_NVS] = E820_NVS,
                                    [EFI_PERSISTENT] = E820_PMEM};

    if (is_usable_efi_type(d->type))
        return d->attribute & EFI_ATTRIBUTE_SPECIFIC_PURPOSE ? E820_SOFT_RESERVED : E820_RAM;
    /* reserved memory, runtime services, MMIO and unknown types become E820_RESERVED */
    return d->type < sizeof(types) && types[d->type] != 0 ? types[d->type] : E820_RESERVED;
}

static bool range_contains(struct range r, uint64_t address)
{
    return address >= r.base && address - r.base < r.size;
}

/* If a border of `r` lies between `position` and *next, lowers *next to the first such border. */
static void lower_to_range_boundary(struct range r, uint64_t position, uint64_t *next)
{
    const uint64_t borders[] = {r.base, r.base + r.size};

    for (unsigned i = 0; i < LENGTH_OF(borders); i++)
        if (r.size != 0 && borders[i] > position && borders[i] < *next)
            *next = borders[i];
}

/* Returns the type of the memory at `position`. This type holds up to *next, where the next range
 * begins or ends. */
static uint32_t e820_type_at(const struct efi_map *map, const struct e820_overlay *overlays,
                             uint64_t overlay_count, uint64_t position, uint64_t *next)
{
    uint32_t type = NOTHING;

    *next = UINT64_MAX;
    for (uint64_t i = 0; i < descriptor_count(map); i++) {
        const struct efi_descriptor *d = descriptor_at(map, i);
        struct range r = descriptor_range(d);
        lower_to_range_boundary(r, position, next);
        if (range_contains(r, position) && (type == NOTHING || type == E820_RAM))
            type = e820_type(d);
    }
    /* From last to first, so that the first one wins. */
    for (uint64_t i = overlay_count; i-- > 0;) {
        lower_to_range_boundary(overlays[i].range, position, next);
        if (range_contains(overlays[i].range, position))
            type = overlays[i].type;
    }
    return type;
}

uint64_t e820_build(const struct efi_map *map, const struct e820_overlay *overlays,
                    uint64_t overlay_count, struct boot_e820_entry *out, uint64_t limit)
{
    uint64_t count = 0, next;

    for (uint64_t position = 0; position != UINT64_MAX; position = next) {
        uint32_t type = e820_type_at(map, overlays, overlay_count, position, &next);
        if (type == NOTHING)
            continue;
        struct boot_e820_entry *last = count > 0 ? &out[count - 1] : NULL;
        if (last != NULL && last->type == type && last->addr + last->size == position)
            last->size += next - position;
        else if (count == limit)
            return limit + 1;
        else
            out[count++] = (struct boot_e820_entry){position, next - position, type};
    }
    return count;
}

void efi_map_hide(struct efi_map *map, const struct range *ranges, uint64_t count)
{
    for (uint64_t i = 0; i < descriptor_count(map); i++) {
        struct efi_descriptor *d = descriptor_at(map, i);
        struct range r = descriptor_range(d);
        for (uint64_t k = 0; k < count; k++)
            if (is_usable_efi_type(d->type) && ranges[k].base < r.base + r.size &&
                r.base < ranges[k].base + ranges[k].size)
                d->type = EFI_RESERVED;
    }
}
