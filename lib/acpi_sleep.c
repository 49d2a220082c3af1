/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Finds sleep states in AML by their names. Reads the values that enter S5 when they are written to
 * the PM1 control registers, and hides the other states from the guest. AML is not interpreted: the
 * code looks for names that NameOp defines, in the encoding that every compiler uses. (ACPI
 * specification, "System \_Sx states", "AML Grammar".)
 */
#include "lib/acpi.h"

#define AML_NAME_OP 0x08
#define AML_PACKAGE_OP 0x12
#define AML_BYTE_PREFIX 0x0a
#define AML_PACKAGE_LENGTH_SHIFT 6 /* bits 7:6 of PkgLength's first byte: number of other bytes */
#define LONGEST 14                 /* largest size in bytes, from the name to the second value */

/* Reads the first two integers of the package. AML encodes a small integer as a prefix and a byte,
 * or as ZeroOp or OneOp, whose opcodes are 0 and 1. */
static void read_sleep_types(const uint8_t *aml, uint8_t type[2])
{
    if (*aml++ != AML_PACKAGE_OP)
        return;
    aml += (*aml >> AML_PACKAGE_LENGTH_SHIFT) + 2; /* skip PkgLength and NumElements */
    for (unsigned i = 0; i < 2; i++) {
        aml += *aml == AML_BYTE_PREFIX;
        type[i] = *aml++;
    }
}

static void scan_sleep_objects(struct acpi_header *table, struct acpi_facts *facts)
{
    uint8_t *aml = (uint8_t *)table;

    for (uint32_t i = sizeof(*table) + 1; table != NULL && i + LONGEST <= table->length; i++) {
        bool defined = aml[i - 1] == AML_NAME_OP ||
                       (aml[i - 1] == '\\' && aml[i - 2] == AML_NAME_OP);
        if (!defined || aml[i] != '_' || aml[i + 1] != 'S' || aml[i + 3] != '_')
            continue;
        if (facts != NULL && aml[i + 2] == '5')
            read_sleep_types(&aml[i + 4], facts->s5_type);
        if (facts == NULL && aml[i + 2] >= '1' && aml[i + 2] <= '4') {
            aml[i] = 'X';
            acpi_set_checksum(table);
        }
    }
}

struct acpi_header *acpi_find_dsdt(uint64_t rsdp)
{
    const struct acpi_fadt_wide *fadt = (struct acpi_fadt_wide *)acpi_find_table(
        rsdp, "FACP", offsetof(struct acpi_fadt, reset_register));

    if (fadt == NULL)
        return NULL;
    bool wide = fadt->narrow.header.length >= sizeof(*fadt) && fadt->x_dsdt != 0;
    return acpi_validate_table(wide ? fadt->x_dsdt : fadt->narrow.dsdt, "DSDT", 0);
}

void acpi_read_sleep_states(uint64_t rsdp, struct acpi_facts *facts)
{
    struct acpi_list list = acpi_read_list(rsdp);

    scan_sleep_objects(acpi_find_dsdt(rsdp), facts);
    for (uint32_t i = 0; i < list.count; i++)
        scan_sleep_objects(acpi_validate_table(acpi_get_table_address(&list, i), "SSDT", 0), facts);
}
