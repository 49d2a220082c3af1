/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest's memory map: the e820 table for Linux, made from the UEFI memory map.
 */
#pragma once

#include <asm/bootparam.h>

#include "boot_info.h"

/* Types of e820 entries (ACPI specification, "Address Range Types"; Linux, asm/e820/types.h). */
#define E820_RAM 1
#define E820_RESERVED 2
#define E820_ACPI 3
#define E820_NVS 4
#define E820_UNUSABLE 5
#define E820_PMEM 7
#define E820_SOFT_RESERVED 0xefffffffu

/* A range whose type the hypervisor decides, whatever firmware's map says. */
struct e820_overlay {
    struct range range;
    uint32_t type;
};

/* Fills out[0..limit) with sorted, merged entries that do not overlap. Overlays win over the map.
 * If two descriptors of the map overlap, the type that is not RAM wins. Returns the number of
 * entries, or limit + 1 if they do not fit. */
uint64_t e820_build(const struct efi_map *map, const struct e820_overlay *overlays,
                    uint64_t overlay_count, struct boot_e820_entry *out, uint64_t limit);

/* Returns the largest number of entries that e820_build() can make from these descriptors and
 * overlays. */
static inline uint64_t e820_entries_max(uint64_t descriptors, uint64_t overlays)
{
    return 2 * (descriptors + overlays);
}

/* Changes the UEFI map itself: every descriptor of usable memory that touches one of the ranges
 * becomes reserved memory. Linux reads the UEFI map, too: KASLR looks there for the kernel's new
 * address. */
void efi_map_hide(struct efi_map *map, const struct range *ranges, uint64_t count);
