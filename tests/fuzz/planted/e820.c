/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A bug for the target to find: of two hidden ranges, the second is forgotten.
 */
#include "guest/e820.h"

uint64_t __real_e820_build(const struct efi_map *map, const struct e820_overlay *overlays,
                           uint64_t overlay_count, struct boot_e820_entry *out, uint64_t limit);

uint64_t __wrap_e820_build(const struct efi_map *map, const struct e820_overlay *overlays,
                           uint64_t overlay_count, struct boot_e820_entry *out, uint64_t limit)
{
    return __real_e820_build(map, overlays, overlay_count == 2 ? 1 : overlay_count, out, limit);
}
