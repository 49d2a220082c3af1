/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The ACPI tables of a machine in this program's memory, where a pointer is the physical address
 * that lib/acpi.c reads by. Linux shows tables, but not the lists that name them: those are made
 * here, and the FADT's pointers to the DSDT. A table's checksum stays as right or wrong as it was.
 */
#define _GNU_SOURCE /* MAP_32BIT */
#include "lib/acpi.h"

#include <string.h>
#include <sys/mman.h>

#include "metal/check/question.h"

/* Zeroed memory below 4 GiB, where the FADT's older pointer can lead; its end is out of bounds. */
static void *keep(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
                        -1, 0);

    if (memory == MAP_FAILED)
        out_of_memory();
    return memory;
}

/* The firmware's pointers lead nowhere here. */
static void set_dsdt(struct acpi_fadt_wide *fadt, uint64_t dsdt)
{
    struct acpi_header *header = &fadt->narrow.header;
    uint8_t before = acpi_checksum(fadt, header->length);

    fadt->narrow.dsdt = (uint32_t)dsdt;
    if (header->length >= sizeof(*fadt))
        fadt->x_dsdt = dsdt;
    header->checksum = (uint8_t)(header->checksum + before - acpi_checksum(fadt, header->length));
}

/* All that the table claims to have is there. */
static struct acpi_header *copy_of(const struct table *t)
{
    struct acpi_header header = {0};
    size_t size = t->length < sizeof(struct acpi_fadt_wide) ? sizeof(struct acpi_fadt_wide)
                                                            : t->length;

    memcpy(&header, t->bytes, t->length < sizeof(header) ? t->length : sizeof(header));
    if (header.length > size && header.length <= ACPI_TABLE_MAX)
        size = header.length;
    return memcpy(keep(size), t->bytes, t->length);
}

uint64_t acpi_make(const struct machine *m)
{
    if (m->table_count == 0)
        return 0;
    struct acpi_header *xsdt = keep(sizeof(*xsdt) + m->table_count * sizeof(uint64_t));
    uint64_t dsdt = 0;
    uint32_t listed = 0;
    struct acpi_list list = {xsdt, sizeof(uint64_t), 0};

    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < m->table_count; i++) {
            const struct table *t = &m->tables[i];
            bool is_dsdt = strcmp(t->signature, "DSDT") == 0;
            if (is_dsdt != (pass == 0))
                continue;
            struct acpi_header *copy = copy_of(t);
            if (strcmp(t->signature, "FACP") == 0 && copy->length >= sizeof(struct acpi_header) &&
                copy->length <= ACPI_TABLE_MAX)
                set_dsdt((struct acpi_fadt_wide *)copy, dsdt);
            if (is_dsdt)
                dsdt = (uintptr_t)copy;
            else
                acpi_set_table_address(&list, listed++, (uintptr_t)copy);
        }
    memcpy(xsdt->signature, "XSDT", sizeof(xsdt->signature));
    xsdt->length = (uint32_t)(sizeof(*xsdt) + listed * sizeof(uint64_t));
    acpi_set_checksum(xsdt);

    struct acpi_rsdp *rsdp = keep(sizeof(*rsdp));
    memcpy(rsdp->signature, "RSD PTR ", sizeof(rsdp->signature));
    rsdp->revision = 2;
    rsdp->length = sizeof(*rsdp);
    rsdp->xsdt = (uintptr_t)xsdt;
    rsdp->checksum = (uint8_t)-acpi_checksum(rsdp, ACPI_RSDP_V1_LENGTH);
    rsdp->extended_checksum = (uint8_t)-acpi_checksum(rsdp, sizeof(*rsdp));
    return (uintptr_t)rsdp;
}
