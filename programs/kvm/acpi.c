/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Lays out RSDP, XSDT and MADT. Pure. (ACPI Specification 6.5, "Root System Description Pointer",
 * "System Description Table Header", "Multiple APIC Description Table (MADT)".)
 */
#include "acpi.h"

#include <stddef.h>
#include <string.h>

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

struct rsdp {
    char signature[8];
    uint8_t checksum;
    char oem[6];
    uint8_t revision;
    uint32_t rsdt, length;
    uint64_t xsdt;
    uint8_t extended_checksum, reserved[3];
} __attribute__((packed));
#define RSDP_REVISION_0_SIZE 20 /* what the first checksum is of */

struct header {
    char signature[4];
    uint32_t length;
    uint8_t revision, checksum;
    char oem[6], table[8];
    uint32_t oem_revision;
    char creator[4];
    uint32_t creator_revision;
} __attribute__((packed));

struct xsdt {
    struct header header;
    uint64_t madt;
} __attribute__((packed));

struct madt {
    struct header header;
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
    struct {
        uint8_t type, length, processor, apic;
        uint32_t flags;
    } __attribute__((packed)) local_apics[ACPI_CPUS_MAX];
} __attribute__((packed));
#define MADT_PCAT_COMPAT 1 /* there are PICs as well */
#define MADT_LOCAL_APIC 0
#define LOCAL_APIC_ENABLED 1
#define MADT_IO_APIC 1
#define MADT_LOCAL_APIC_NMI 4

_Static_assert(sizeof(struct rsdp) == 36, "ACPI: RSDP");
_Static_assert(sizeof(struct header) == 36, "ACPI: system description table header");
_Static_assert(ACPI_ADDRESS + sizeof(struct rsdp) <= XSDT_ADDRESS, "the tables overlap");
_Static_assert(XSDT_ADDRESS + sizeof(struct xsdt) <= MADT_ADDRESS, "the tables overlap");

static uint8_t checksum(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint8_t sum = 0;

    for (size_t i = 0; i < size; i++)
        sum = (uint8_t)(sum + bytes[i]);
    return (uint8_t)-sum;
}

static void place(uint8_t *memory, uint32_t address, const char *signature, uint8_t revision,
                  struct header *table, uint32_t size)
{
    *table = (struct header){.length = size, .revision = revision, .oem_revision = 1};
    memcpy(table->signature, signature, sizeof(table->signature));
    memcpy(table->oem, "PMUV  ", sizeof(table->oem));
    memcpy(table->table, "LAUNCHER", sizeof(table->table));
    memcpy(table->creator, "PMUV", sizeof(table->creator));
    table->checksum = checksum(table, size);
    memcpy(memory + address, table, size);
}

void acpi_place(uint8_t *memory, unsigned cpus)
{
    struct rsdp rsdp = {.revision = RSDP_REVISION_2, .length = sizeof(rsdp), .xsdt = XSDT_ADDRESS};
    struct xsdt xsdt = {.madt = MADT_ADDRESS};
    struct madt madt = {
        .local_apic_address = LOCAL_APIC_ADDRESS,
        .flags = MADT_PCAT_COMPAT,
        .io_apic = {MADT_IO_APIC, sizeof(madt.io_apic), IO_APIC_ID, 0, IO_APIC_ADDRESS, 0},
        .nmi = {MADT_LOCAL_APIC_NMI, sizeof(madt.nmi), ALL_PROCESSORS, 0, LINT1},
    };

    for (uint8_t i = 0; i < cpus; i++) {
        madt.local_apics[i].type = MADT_LOCAL_APIC;
        madt.local_apics[i].length = sizeof(madt.local_apics[i]);
        madt.local_apics[i].processor = madt.local_apics[i].apic = i;
        madt.local_apics[i].flags = LOCAL_APIC_ENABLED;
    }
    memcpy(rsdp.signature, "RSD PTR ", sizeof(rsdp.signature));
    memcpy(rsdp.oem, "PMUV  ", sizeof(rsdp.oem));
    rsdp.checksum = checksum(&rsdp, RSDP_REVISION_0_SIZE);
    rsdp.extended_checksum = checksum(&rsdp, sizeof(rsdp));
    memcpy(memory + ACPI_ADDRESS, &rsdp, sizeof(rsdp));
    place(memory, XSDT_ADDRESS, "XSDT", XSDT_REVISION, &xsdt.header, sizeof(xsdt));
    place(memory, MADT_ADDRESS, "APIC", MADT_REVISION, &madt.header,
          (uint32_t)(offsetof(struct madt, local_apics) + cpus * sizeof(madt.local_apics[0])));
}
