/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ACPI tables for the tests: RSDP, both lists, FADT, DSDT, a MADT with four processors, of which
 * three are enabled.
 */
#pragma once

#define SETUP setup
#define TEARDOWN teardown

#include "unit.h"

#include <sys/mman.h>

#include "boot/acpi.h"
#include "guest/acpi_edit.h"

#define DOORBELL 0x12345000ULL
#define AREA_SIZE 4096

static struct tables {
    struct acpi_rsdp rsdp;
    uint8_t padding[4]; /* the XSDT's entries end up on addresses that 8 does not divide */
    struct {
        struct acpi_header header;
        uint64_t entries[3];
    } __attribute__((packed)) xsdt;
    struct {
        struct acpi_header header;
        uint32_t entries[3];
    } __attribute__((packed)) rsdt;
    struct acpi_header other;
    struct {
        struct acpi_header header;
        uint8_t aml[48];
    } dsdt;
    struct {
        union {
            struct acpi_fadt fadt;
            struct acpi_fadt_wide wide;
        };
        uint8_t rest[48];
    } __attribute__((packed)) facp;
    struct {
        struct acpi_header header;
        uint32_t address, flags;
        struct acpi_madt_local_apic apic[3];
        struct {
            uint8_t type, length, body[10];
        } __attribute__((packed)) io_apic;
        struct acpi_madt_local_x2apic x2apic[2];
    } __attribute__((packed)) madt;
} __attribute__((packed)) * t;
static uint8_t *area;

static void fill_header(struct acpi_header *h, const char *signature, uint32_t length)
{
    memcpy(h->signature, signature, 4);
    h->length = length;
    h->revision = 3;
    acpi_set_checksum(h);
}

static void seal_all(void)
{
    fill_header(&t->xsdt.header, "XSDT", sizeof(t->xsdt));
    fill_header(&t->rsdt.header, "RSDT", sizeof(t->rsdt));
    fill_header(&t->other, "SSDT", sizeof(t->other));
    fill_header(&t->dsdt.header, "DSDT", sizeof(t->dsdt));
    fill_header(&t->facp.fadt.header, "FACP", sizeof(t->facp));
    fill_header(&t->madt.header, "APIC", sizeof(t->madt));
    t->rsdp.checksum = t->rsdp.extended_checksum = 0;
    t->rsdp.checksum = (uint8_t)(0 - acpi_checksum(&t->rsdp, 20));
    t->rsdp.extended_checksum = (uint8_t)(0 - acpi_checksum(&t->rsdp, sizeof(t->rsdp)));
}

static uint64_t rsdp(void) { return (uintptr_t)&t->rsdp; }

static int setup(void **state)
{
    (void)state;
    t = mmap(NULL, sizeof(*t) + AREA_SIZE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (t == MAP_FAILED)
        return 1;
    area = (uint8_t *)(((uintptr_t)(t + 1) + 15) & ~(uintptr_t)15);
    memcpy(t->rsdp.signature, "RSD PTR ", 8);
    t->rsdp.revision = 2;
    t->rsdp.length = sizeof(t->rsdp);
    t->rsdp.rsdt = (uint32_t)(uintptr_t)&t->rsdt;
    t->rsdp.xsdt = (uintptr_t)&t->xsdt;
    const void *list[] = {&t->other, &t->facp, &t->madt};
    for (int i = 0; i < 3; i++) {
        t->xsdt.entries[i] = (uintptr_t)list[i];
        t->rsdt.entries[i] = (uint32_t)(uintptr_t)list[i];
    }
    t->facp.fadt.pm1a_control = 0xb004;
    t->facp.fadt.pm1b_control = 0xc004;
    t->facp.fadt.pm_timer = 0xb008;
    t->facp.fadt.pm_timer_length = 4;
    t->facp.fadt.flags = ACPI_FADT_RESET_REG_SUP;
    t->facp.fadt.reset_register = (struct acpi_generic_address){
        .space_id = ACPI_SPACE_IO, .bit_width = 8, .address = 0xcf9};
    t->facp.fadt.reset_value = 6;
    for (uint8_t i = 0; i < 3; i++)
        t->madt.apic[i] = (struct acpi_madt_local_apic){
            {ACPI_MADT_LOCAL_APIC, 8}, i, (uint8_t)(2 * i), ACPI_MADT_ENABLED};
    t->madt.apic[2].flags = 0; /* a socket without processor */
    t->madt.io_apic.type = 1;
    t->madt.io_apic.length = 12;
    t->madt.io_apic.body[0] = 0xaa;
    for (uint32_t i = 0; i < 2; i++)
        t->madt.x2apic[i] = (struct acpi_madt_local_x2apic){
            {ACPI_MADT_LOCAL_X2APIC, 16}, 0, 0x100 + i, ACPI_MADT_ENABLED, 9 + i};
    t->madt.x2apic[1].flags = ACPI_MADT_ONLINE_CAPABLE;
    seal_all();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return munmap(t, sizeof(*t) + AREA_SIZE);
}

static inline const struct guest_processors *keep(uint32_t apic_id)
{
    static struct guest_processors one;

    one = (struct guest_processors){.count = 1, .apic_id = {apic_id}};
    return &one;
}

static inline struct acpi_facts read_facts(void)
{
    struct acpi_facts f;

    acpi_facts_read(rsdp(), &f);
    return f;
}

static inline struct acpi_facts sealed_facts(void)
{
    seal_all();
    return read_facts();
}

/* What the facts are, however they are found. */
static inline void check_facts(uint32_t processors)
{
    struct acpi_facts f = read_facts();
    assert_int_equal(f.rsdp, rsdp());
    assert_int_equal(f.processors, processors);
    assert_int_equal(f.pm1a_control, 0xb004);
    assert_int_equal(f.pm1b_control, 0xc004);
    assert_int_equal(f.pm_timer, 0xb008);
    assert_true(f.reset_supported);
    assert_int_equal(f.reset_register.space_id, ACPI_SPACE_IO);
    assert_int_equal(f.reset_register.bit_width, 8);
    assert_int_equal(f.reset_register.address, 0xcf9);
    assert_int_equal(f.reset_value, 6);
}
