/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A bug for the target to find: the guest's FADT keeps the checksum of the firmware's.
 */
#include <string.h>

#include "lib/acpi.h"

void __real_acpi_set_checksum(struct acpi_header *table);

void __wrap_acpi_set_checksum(struct acpi_header *table)
{
    const struct acpi_fadt *fadt = (const struct acpi_fadt *)table;

    if (memcmp(table->signature, "FACP", sizeof(table->signature)) != 0 ||
        table->length < sizeof(*fadt) || fadt->reset_register.space_id != ACPI_SPACE_MEMORY)
        __real_acpi_set_checksum(table);
}
