/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests of damaged ACPI tables: what Linux takes is taken, what it would find is not missed.
 */
#define _GNU_SOURCE /* MAP_32BIT: an RSDT holds 32-bit addresses */
#include "acpi_tables.h"
#include "console/log.h"

static char said[4096];

static void keep_text(const char *text, size_t length) { strncat(said, text, length); }
static void listen(void)
{
    said[0] = '\0';
    log_set_sink(LOG_SCREEN, keep_text);
}

TEST(test_damaged_lengths)
{
    static const uint32_t lengths[] = {0, 1, 35, 36, ACPI_TABLE_MAX + 1, 0xffffffff};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        t->madt.header.length = lengths[i];
        assert_int_equal(read_facts().processors, 0);
    }
    seal_all();
    t->xsdt.entries[2] = 0;
    struct acpi_facts f = sealed_facts();
    assert_int_equal(f.processors, 0);
    assert_int_equal(f.pm1a_control, 0xb004);
}

/* Linux takes a table with a wrong checksum, and starts the processors in it. */
TEST(test_wrong_checksums)
{
    listen();
    t->facp.fadt.dsdt = (uint32_t)(uintptr_t)&t->dsdt;
    seal_all();
    acpi_warn_of_damage(rsdp());
    assert_string_equal(said, "");

    t->rsdp.checksum++;
    t->rsdp.extended_checksum++;
    t->rsdp.length = 0; /* Linux does not look at it either */
    struct acpi_header *const tables[] = {&t->xsdt.header, &t->rsdt.header, &t->facp.fadt.header,
                                          &t->madt.header, &t->dsdt.header};
    for (unsigned i = 0; i < COUNT(tables); i++)
        tables[i]->oem_revision++;
    check_facts(3);
    assert_int_equal(read_facts().processors, 3);
    acpi_warn_of_damage(rsdp());
    static const char *const names[] = {"XSDT", "FACP", "APIC", "DSDT"};
    char *at = said;
    for (unsigned i = 0; i < 4; i++) {
        char line[64];
        snprintf(line, sizeof(line), "warning: ACPI table %s: its checksum is wrong", names[i]);
        at = strstr(at, line);
        assert_non_null(at);
    }
    assert_null(strstr(said, "SSDT"));

    /* The guest's are right. */
    struct guest_acpi_result done = guest_acpi_edit(rsdp(), keep(2), DOORBELL, area, AREA_SIZE);
    assert_true(done.processors_limited && done.reset_watched);
    const struct acpi_header *madt = acpi_find_table(rsdp(), "APIC", 0);
    assert_ptr_not_equal(madt, &t->madt);
    assert_int_equal(acpi_checksum(madt, madt->length), 0);
    assert_int_equal(acpi_checksum(&t->xsdt, sizeof(t->xsdt)), 0);
    listen();
    t->madt.header.length = 35;
    t->xsdt.entries[2] = (uintptr_t)&t->madt;
    acpi_warn_of_damage(rsdp());
    assert_contains(said, "ACPI table APIC: found 35 bytes, wanted 36 to 16777216");
}

/* Real tables have 3 MiB. */
TEST(test_long_tables)
{
    static const uint8_t s5[] = {0x08, '_', 'S', '5', '_', 0x12, 0x06, 4, 0x0a, 5, 0x0a, 5, 0, 0};
    const uint32_t length = 3 << 20;
    struct acpi_header *dsdt = mmap(NULL, length, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    assert_ptr_not_equal(dsdt, MAP_FAILED);
    memcpy((uint8_t *)dsdt + length - sizeof(s5) - 16, s5, sizeof(s5));
    fill_header(dsdt, "DSDT", length);
    t->facp.fadt.dsdt = (uint32_t)(uintptr_t)dsdt;
    seal_all();
    listen();
    struct acpi_facts f = read_facts();
    acpi_warn_of_damage(rsdp());
    assert_int_equal(f.s5_type[0], 5);
    assert_string_equal(said, "");
    assert_int_equal(munmap(dsdt, length), 0);
}

TEST(test_damaged_entries)
{
    t->madt.io_apic.length = 0; /* would never end */
    assert_int_equal(sealed_facts().processors, 2);
    t->madt.io_apic.length = 255; /* past the table's end */
    assert_int_equal(sealed_facts().processors, 2);
    t->madt.io_apic.length = 12;
    t->madt.x2apic[1].entry.length = 17; /* one byte past it */
    assert_int_equal(sealed_facts().processors, 3);
    t->madt.apic[1].entry.length = 4; /* too short for a local APIC: not read as one */
    t->madt.apic[1].flags = ACPI_MADT_ENABLED;
    assert_true(sealed_facts().processors >= 1);
}

/* Linux goes on where an entry's length leads past the end, and would start what is in it. */
TEST(test_edit_ends_at_damage)
{
    t->madt.x2apic[1] = (struct acpi_madt_local_x2apic){
        {ACPI_MADT_LOCAL_X2APIC, 17}, 0, 0x101, ACPI_MADT_ENABLED, 10};
    seal_all();
    assert_true(guest_acpi_edit(rsdp(), keep(2), DOORBELL, area, AREA_SIZE).processors_limited);
    const struct acpi_header *madt = acpi_find_table(rsdp(), "APIC", 0);
    assert_int_equal(madt->length, sizeof(t->madt) - sizeof(t->madt.x2apic[1]));
    assert_int_equal(acpi_checksum(madt, madt->length), 0);
}
