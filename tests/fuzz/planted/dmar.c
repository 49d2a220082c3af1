/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A bug for the target to find: one structure more than is there is looked at.
 */
#include "lib/acpi.h"
#include "mm/dmar.h"

bool __real_dmar_read(const void *table, struct dmar *d);

bool __wrap_dmar_read(const void *table, struct dmar *d)
{
    const struct acpi_header *header = table;

    return __real_dmar_read(table, d) && ((const uint8_t *)table)[header->length] != UINT8_MAX;
}
