/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Walks the ACPI tables. Checks each length before using it. The walk accepts the tables that Linux
 * accepts, and Linux does not check checksums. If the walk rejected a table that the guest then
 * uses, a processor in that table would run outside VMX operation. (ACPI specification, "Root
 * System Description Pointer" and "System Description Table Header".)
 */
#include "lib/acpi.h"

#include <string.h>

#include "bits.h"

#define RSDP_SIGNATURE "RSD PTR "

uint8_t acpi_checksum(const void *table, uint64_t length)
{
    const uint8_t *bytes = table;
    uint8_t sum = 0;
    for (uint64_t i = 0; i < length; i++)
        sum = (uint8_t)(sum + bytes[i]);
    return sum;
}

void acpi_set_checksum(struct acpi_header *table)
{
    table->checksum = 0;
    table->checksum = (uint8_t)(0 - acpi_checksum(table, table->length));
}

struct acpi_header *acpi_validate_table(uint64_t address, const char *signature, uint64_t least)
{
    struct acpi_header *table = (struct acpi_header *)(uintptr_t)address;
    bool valid = address != 0 && address < ACPI_ADDRESS_END &&
                 (signature == NULL ||
                  memcmp(table->signature, signature, sizeof(table->signature)) == 0) &&
                 table->length >= sizeof(*table) && table->length >= least &&
                 table->length <= ACPI_TABLE_MAX;

    return valid ? table : NULL;
}

static const struct acpi_rsdp *check_rsdp(uint64_t address)
{
    const struct acpi_rsdp *rsdp = (const struct acpi_rsdp *)(uintptr_t)address;

    return address != 0 && memcmp(rsdp->signature, RSDP_SIGNATURE, sizeof(rsdp->signature)) == 0
               ? rsdp
               : NULL;
}

/* Address 0 stands for a list that does not exist. */
static struct acpi_list read_table_list(uint64_t address, uint32_t entry_size)
{
    struct acpi_header *table = acpi_validate_table(address, NULL, 0);
    uint32_t bytes = table == NULL ? 0 : table->length - (uint32_t)sizeof(*table);

    return (struct acpi_list){table, entry_size, bytes / entry_size};
}

struct acpi_list acpi_read_xsdt(uint64_t rsdp_address)
{
    const struct acpi_rsdp *rsdp = check_rsdp(rsdp_address);

    return read_table_list(rsdp != NULL && rsdp->revision >= 2 ? rsdp->xsdt : 0, sizeof(uint64_t));
}

struct acpi_list acpi_read_rsdt(uint64_t rsdp_address)
{
    const struct acpi_rsdp *rsdp = check_rsdp(rsdp_address);

    return read_table_list(rsdp != NULL ? rsdp->rsdt : 0, sizeof(uint32_t));
}

struct acpi_list acpi_read_list(uint64_t rsdp)
{
    struct acpi_list xsdt = acpi_read_xsdt(rsdp);

    return xsdt.table != NULL ? xsdt : acpi_read_rsdt(rsdp);
}

/* XSDT entries are only 4-byte aligned, so they are copied and never dereferenced. */
static uint8_t *list_entry_at(const struct acpi_list *list, uint32_t index)
{
    return (uint8_t *)(list->table + 1) + (uint64_t)index * list->entry_size;
}

uint64_t acpi_get_table_address(const struct acpi_list *list, uint32_t index)
{
    uint64_t address = 0;
    memcpy(&address, list_entry_at(list, index), list->entry_size);
    return address;
}

void acpi_set_table_address(const struct acpi_list *list, uint32_t index, uint64_t address)
{
    memcpy(list_entry_at(list, index), &address, list->entry_size);
}

struct acpi_header *acpi_find_table(uint64_t rsdp, const char *signature, uint64_t least)
{
    struct acpi_list list = acpi_read_list(rsdp);

    for (uint32_t i = 0; i < list.count; i++) {
        struct acpi_header *table = acpi_validate_table(acpi_get_table_address(&list, i), signature,
                                                        least);
        if (table != NULL)
            return table;
    }
    return NULL;
}

struct acpi_madt_entry *acpi_madt_next(struct acpi_madt *madt, struct acpi_madt_entry *entry)
{
    uint8_t *end = (uint8_t *)madt + madt->header.length;
    uint8_t *next = entry == NULL ? madt->entries : (uint8_t *)entry + entry->length;
    struct acpi_madt_entry *found = (struct acpi_madt_entry *)next;
    bool valid = next <= end && (uint64_t)(end - next) >= sizeof(*found) &&
                 found->length >= sizeof(*found) && found->length <= end - next;

    return valid ? found : NULL;
}

/* Where an entry of each kind has its processor's ID and flags. */
static const struct processor_kind {
    uint8_t type;
    uint8_t length; /* least bytes of an entry */
    uint8_t id;     /* offset in bytes */
    uint8_t id_bytes;
    uint8_t flags;  /* offset in bytes; the flags that are used lie in the first byte */
    uint32_t no_id; /* stands for no processor: all bits are 1 */
} processor_kinds[] = {
    {ACPI_MADT_LOCAL_APIC, sizeof(struct acpi_madt_local_apic),
     offsetof(struct acpi_madt_local_apic, apic_id), 1,
     offsetof(struct acpi_madt_local_apic, flags), ACPI_NO_APIC_ID},
    {ACPI_MADT_LOCAL_SAPIC, sizeof(struct acpi_madt_local_sapic),
     offsetof(struct acpi_madt_local_sapic, id), 2, offsetof(struct acpi_madt_local_sapic, flags),
     ACPI_NO_SAPIC_ID},
    {ACPI_MADT_LOCAL_X2APIC, sizeof(struct acpi_madt_local_x2apic),
     offsetof(struct acpi_madt_local_x2apic, x2apic_id), 4,
     offsetof(struct acpi_madt_local_x2apic, flags), ACPI_NO_X2APIC_ID},
};

/* Returns NULL for an entry that is not a processor. */
static const struct processor_kind *find_processor_kind(const struct acpi_madt_entry *entry)
{
    for (unsigned i = 0; i < LENGTH_OF(processor_kinds); i++)
        if (entry->type == processor_kinds[i].type && entry->length >= processor_kinds[i].length)
            return &processor_kinds[i];
    return NULL;
}

bool acpi_madt_read_processor(const struct acpi_madt_entry *entry, uint32_t *apic_id)
{
    const struct processor_kind *kind = find_processor_kind(entry);
    const uint8_t *bytes = (const uint8_t *)entry;

    if (kind == NULL)
        return false;
    *apic_id = 0;
    memcpy(apic_id, bytes + kind->id, kind->id_bytes);
    if (kind->type == ACPI_MADT_LOCAL_SAPIC)
        *apic_id = __builtin_bswap16((uint16_t)*apic_id); /* the high byte, id, precedes eid */
    /* Linux also skips entries without an ID, whatever their flags. */
    return *apic_id != kind->no_id && bytes[kind->flags] & ACPI_MADT_ENABLED;
}

void acpi_madt_disable_processor(struct acpi_madt_entry *entry)
{
    const struct processor_kind *kind = find_processor_kind(entry);
    uint8_t *bytes = (uint8_t *)entry;

    if (kind != NULL) {
        bytes[kind->flags] &= (uint8_t)~(ACPI_MADT_ENABLED | ACPI_MADT_ONLINE_CAPABLE);
        memset(bytes + kind->id, 0xff, kind->id_bytes);
    } else if (entry->type == ACPI_MADT_MP_WAKEUP) {
        entry->type = ACPI_MADT_OEM;
    }
}
