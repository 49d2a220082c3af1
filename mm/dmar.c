/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads the ACPI table DMAR. Pure. Checks the length of each structure. Ignores device scopes: all
 * units get the same tables for all devices. A device that belongs to no unit is not contained.
 * (VT-d specification, "DMA Remapping Reporting Structure", "DMA Remapping Hardware Unit Definition
 * Structure", "Reserved Memory Region Reporting Structure".)
 */
#include "mm/dmar.h"

#include "bits.h"
#include "lib/acpi.h"

static bool add_remapping_unit(struct dmar *d, const struct dmar_drhd *unit)
{
    if (d->unit_count == DMAR_UNITS_MAX || unit->registers == 0 ||
        unit->registers % PAGE_SIZE != 0 || (unit->registers & NO_ADDRESS) != 0)
        return false;
    d->units[d->unit_count++] = (struct range){unit->registers,
                                               PAGE_SIZE << (unit->size & DRHD_SIZE)};
    return true;
}

static bool add_reserved_region(struct dmar *d, const struct dmar_rmrr *region)
{
    if (d->reserved_count == DMAR_RESERVED_MAX || region->limit < region->base ||
        (region->limit & NO_ADDRESS) != 0)
        return false;
    d->reserved[d->reserved_count++] = (struct range){region->base,
                                                      region->limit - region->base + 1};
    return true;
}

bool dmar_read(const void *table, struct dmar *d)
{
    const struct dmar_table *dmar = table;
    const uint8_t *next = dmar->structures, *end = next - sizeof(*dmar) + dmar->header.length;

    d->unit_count = d->reserved_count = 0;
    while (next < end) {
        const struct dmar_structure *s = (const void *)next;
        uint64_t left = (uint64_t)(end - next);

        if (left < sizeof(*s) || s->length < sizeof(*s) || s->length > left)
            return false;
        if (s->type == DMAR_DRHD) {
            if (s->length < sizeof(struct dmar_drhd) || !add_remapping_unit(d, (const void *)next))
                return false;
        } else if (s->type == DMAR_RMRR) {
            if (s->length < sizeof(struct dmar_rmrr) || !add_reserved_region(d, (const void *)next))
                return false;
        }
        next += s->length;
    }
    return d->unit_count > 0;
}
