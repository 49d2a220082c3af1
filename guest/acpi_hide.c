/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Takes a table out of the guest's ACPI lists, in place. (ACPI specification, "Extended System
 * Description Table (XSDT)".)
 */
#include "guest/acpi_edit.h"

#include <string.h>

#include "acpi.h"

/* Gives false when the list, which may lie in write-protected memory, did not change. */
static bool hide_in(struct acpi_list *list, const char *signature)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t address = acpi_list_get(list, i);

        if (acpi_table(address, signature, 0) == NULL)
            acpi_list_set(list, kept++, address);
    }
    uint32_t length = (uint32_t)sizeof(*list->table) + kept * list->entry_size;
    list->table->length = length;
    acpi_seal(list->table);
    return list->table->length == length && acpi_sum(list->table, length) == 0;
}

bool guest_acpi_hide(uint64_t rsdp, const char *signature)
{
    struct acpi_list list;
    bool done = true;

    if (acpi_xsdt(rsdp, &list))
        done &= hide_in(&list, signature);
    if (acpi_rsdt(rsdp, &list))
        done &= hide_in(&list, signature);
    return done;
}
