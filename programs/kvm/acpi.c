/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Lays out RSDP, XSDT and MADT. Pure. (ACPI Specification 6.5, "Root System Description Pointer",
 * "System Description Table Header", "Multiple APIC Description Table (MADT)".)
 */
#include "acpi.h"

#include <stddef.h>
#include <string.h>

#include "lib/acpi.h"

#define XSDT_ADDRESS (ACPI_ADDRESS + 0x40)
#define MADT_ADDRESS (ACPI_ADDRESS + 0x80)
#define RSDP_REVISION_2 2
#define XSDT_REVISION 1
#define MADT_REVISION 5
#define LOCAL_APIC_ADDRESS 0xfee00000u
#define IO_APIC_ADDRESS 0xfec00000u
#define IO_APIC_ID ACPI_CPUS_MAX /* none of a local APIC */
#define ALL_PROCESSORS 0xff
#define LINT1 1

struct xsdt {
    struct acpi_header header;
    uint64_t madt;
} __attribute__((packed));

struct madt {
    struct acpi_header header;
    uint32_t local_apic_address, flags;
    struct {
        uint8_t type, length, id, reserved;
        uint32_t address, first_interrupt;
    } __attribute__((packed)) io_apic;
    struct {
        uint8_t type, length, processor;
        uint16_t flags;
        uint8_t input;
    } __attribute__((packed)) nmi;
    /* As many as there are processors: the table ends with them. */
    struct acpi_madt_local_apic local_apics[ACPI_CPUS_MAX];
} __attribute__((packed));
#define MADT_PCAT_COMPAT 1 /* there are PICs as well */
#define MADT_IO_APIC 1
#define MADT_LOCAL_APIC_NMI 4

_Static_assert(ACPI_ADDRESS + sizeof(struct acpi_rsdp) <= XSDT_ADDRESS, "the tables overlap");
_Static_assert(XSDT_ADDRESS + sizeof(struct xsdt) <= MADT_ADDRESS, "the tables overlap");

static void place(uint8_t *memory, uint32_t address, const char *signature, uint8_t revision,
                  struct acpi_header *table, uint32_t size)
{
    *table = (struct acpi_header){.length = size, .revision = revision, .oem_revision = 1};
    memcpy(table->signature, signature, sizeof(table->signature));
    memcpy(table->oem_id, "PMUV  ", sizeof(table->oem_id));
    memcpy(table->oem_table_id, "LAUNCHER", sizeof(table->oem_table_id));
    memcpy(table->creator_id, "PMUV", sizeof(table->creator_id));
    acpi_set_checksum(table);
    memcpy(memory + address, table, size);
}

void acpi_place(uint8_t *memory, unsigned cpus)
{
    struct acpi_rsdp rsdp = {
        .revision = RSDP_REVISION_2, .length = sizeof(rsdp), .xsdt = XSDT_ADDRESS};
    struct xsdt xsdt = {.madt = MADT_ADDRESS};
    struct madt madt = {
        .local_apic_address = LOCAL_APIC_ADDRESS,
        .flags = MADT_PCAT_COMPAT,
        .io_apic = {MADT_IO_APIC, sizeof(madt.io_apic), IO_APIC_ID, 0, IO_APIC_ADDRESS, 0},
        .nmi = {MADT_LOCAL_APIC_NMI, sizeof(madt.nmi), ALL_PROCESSORS, 0, LINT1},
    };

    for (uint8_t i = 0; i < cpus; i++)
        madt.local_apics[i] = (struct acpi_madt_local_apic){
            {ACPI_MADT_LOCAL_APIC, sizeof(madt.local_apics[i])}, i, i, ACPI_MADT_ENABLED};
    memcpy(rsdp.signature, "RSD PTR ", sizeof(rsdp.signature));
    memcpy(rsdp.oem_id, "PMUV  ", sizeof(rsdp.oem_id));
    rsdp.checksum = (uint8_t)-acpi_checksum(&rsdp, ACPI_RSDP_V1_LENGTH);
    rsdp.extended_checksum = (uint8_t)-acpi_checksum(&rsdp, sizeof(rsdp));
    memcpy(memory + ACPI_ADDRESS, &rsdp, sizeof(rsdp));
    place(memory, XSDT_ADDRESS, "XSDT", XSDT_REVISION, &xsdt.header, sizeof(xsdt));
    place(memory, MADT_ADDRESS, "APIC", MADT_REVISION, &madt.header,
          (uint32_t)(offsetof(struct madt, local_apics) + cpus * sizeof(madt.local_apics[0])));
}
