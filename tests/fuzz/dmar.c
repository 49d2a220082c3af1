/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fuzz target: firmware's DMAR table. Input: the structures after its header.
 */
#include "mm/dmar.h"

#include "fuzz.h"
#include "lib/acpi.h"

static void check_range(const struct range *r)
{
    CHECK(r->size != 0 && r->base + (r->size - 1) >= r->base, "0x%lx + 0x%lx",
          (unsigned long)r->base, (unsigned long)r->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct acpi_header *table = malloc(sizeof(*table) + size);
    struct dmar *d = malloc(sizeof(*d)), *longer = malloc(sizeof(*longer));

    CHECK(table != NULL && d != NULL && longer != NULL, "%zu bytes", size);
    memset(table, 0, sizeof(*table));
    memcpy(table->signature, "DMAR", sizeof(table->signature));
    table->length = (uint32_t)(sizeof(*table) + size);
    if (size != 0)
        memcpy(table + 1, data, size);
    if (dmar_read(table, d)) {
        CHECK(d->unit_count > 0 && d->unit_count <= DMAR_UNITS_MAX, "%u units", d->unit_count);
        CHECK(d->reserved_count <= DMAR_RESERVED_MAX, "%u regions", d->reserved_count);
        for (uint32_t i = 0; i < d->unit_count; i++) {
            check_range(&d->units[i]);
            CHECK(d->units[i].base % PAGE_SIZE == 0 && d->units[i].size % PAGE_SIZE == 0, "unit %u",
                  i);
        }
        for (uint32_t i = 0; i < d->reserved_count; i++)
            check_range(&d->reserved[i]);
        /* Cut anywhere, it is refused or says less. */
        for (uint32_t cut = 1; cut < size && cut < 64; cut++) {
            struct acpi_header *less = exactly(table, table->length - cut);
            less->length = table->length - cut;
            CHECK(!dmar_read(less, longer) || longer->unit_count + longer->reserved_count <=
                                                  d->unit_count + d->reserved_count,
                  "cut by %u", cut);
            free(less);
        }
    }
    free(longer);
    free(d);
    free(table);
    return 0;
}
