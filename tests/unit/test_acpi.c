/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests of the ACPI walk and of the guest's edited tables, on tables made here.
 */
#define _GNU_SOURCE /* MAP_32BIT: an RSDT holds 32-bit addresses */
#include "acpi_tables.h"
#include "console/log.h"

/* ---- facts ---- */

TEST(test_facts) { check_facts(3); }

TEST(test_facts_by_rsdt)
{
    t->rsdp.revision = 0;
    t->rsdp.xsdt = 0;
    seal_all();
    check_facts(3);
}

TEST(test_nothing_found)
{
    struct acpi_facts f;
    acpi_facts_read(0, &f);
    assert_int_equal(f.processors, 0);
    assert_int_equal(f.pm1a_control, 0);
    assert_false(f.reset_supported);

    t->rsdp.signature[0]++;
    assert_int_equal(read_facts().pm1a_control, 0);
    assert_int_equal(guest_acpi_size(rsdp()), 0);
}

TEST(test_no_reset_register)
{
    t->facp.fadt.flags = 0;
    struct acpi_facts f = sealed_facts();
    assert_false(f.reset_supported);
    assert_int_equal(f.pm1a_control, 0xb004);

    /* A FADT of ACPI 1.0 ends before the register. */
    t->facp.fadt.flags = ACPI_FADT_RESET_REG_SUP;
    seal_all();
    fill_header(&t->facp.fadt.header, "FACP", 116);
    f = read_facts();
    assert_false(f.reset_supported);
    assert_int_equal(f.pm1a_control, 0xb004);
}

TEST(test_wide_pm1)
{
    t->facp.wide.x_pm1a_control = (struct acpi_generic_address){
        .space_id = ACPI_SPACE_IO, .bit_width = 16, .address = 0x1804};
    /* Not a port: the narrow field stays. */
    t->facp.wide.x_pm1b_control = (struct acpi_generic_address){
        .space_id = ACPI_SPACE_MEMORY, .bit_width = 16, .address = 0x1904};
    struct acpi_facts f = sealed_facts();
    assert_int_equal(f.pm1a_control, 0x1804);
    assert_int_equal(f.pm1b_control, 0xc004);
    assert_int_equal(f.pm_timer, 0xb008);

    t->facp.wide.x_pm_timer = (struct acpi_generic_address){
        .space_id = ACPI_SPACE_IO, .bit_width = 32, .address = 0x1808};
    assert_int_equal(sealed_facts().pm_timer, 0x1808);
    t->facp.fadt.pm_timer_length = 0; /* as firmware says that it has none */
    assert_int_equal(sealed_facts().pm_timer, 0);

    t->facp.fadt.pm1a_control = 0;
    assert_int_equal(sealed_facts().pm1a_control, 0x1804);

    /* The table ends inside the last of the wide fields. */
    fill_header(&t->facp.fadt.header, "FACP", sizeof(struct acpi_fadt_wide) - 1);
    assert_int_equal(read_facts().pm1a_control, 0);
}

/* In either kind of entry, once each, without those that may come later. */
TEST(test_processor_ids)
{
    t->madt.x2apic[1] = (struct acpi_madt_local_x2apic){
        {ACPI_MADT_LOCAL_X2APIC, 16}, 0, 2, ACPI_MADT_ENABLED, 1};
    struct acpi_facts f = sealed_facts();
    assert_int_equal(f.processors, 3);
    assert_int_equal(f.apic_id[0], 0);
    assert_int_equal(f.apic_id[1], 2);
    assert_int_equal(f.apic_id[2], 0x100);

    t->madt.apic[0].apic_id = ACPI_NO_APIC_ID; /* "enabled" all the same */
    t->madt.x2apic[1].x2apic_id = ACPI_NO_X2APIC_ID;
    f = sealed_facts();
    assert_int_equal(f.processors, 2);
    assert_int_equal(f.apic_id[0], 2);
    assert_int_equal(f.apic_id[1], 0x100);
}

/* Of type 7, whose ID has two bytes. */
static const uint8_t sapic[16] = {7, 16, 9, 0x12, 0x34, 0, 0, 0, ACPI_MADT_ENABLED};

TEST(test_sapic_is_a_processor)
{
    memcpy(&t->madt.x2apic[1], sapic, sizeof(sapic));
    struct acpi_facts f = sealed_facts();
    assert_int_equal(f.processors, 4);
    assert_int_equal(f.apic_id[3], 0x1234);
    memset((uint8_t *)&t->madt.x2apic[1] + 3, 0xff, 2);
    assert_int_equal(sealed_facts().processors, 3);
}

/* ---- firmware's console ---- */

TEST(test_serial)
{
    static struct {
        struct acpi_header header;
        uint8_t type, reserved[3];
        struct acpi_generic_address base;
        uint8_t interrupt[6], baud, rest[21];
    } __attribute__((packed)) spcr;
    static const struct {
        uint8_t type, space, baud;
        uint64_t address;
        uint16_t port, divisor;
    } cases[] = {
        {0, ACPI_SPACE_IO, 7, 0x3f8, 0x3f8, 1},      {1, ACPI_SPACE_IO, 3, 0x3e8, 0x3e8, 12},
        {0x12, ACPI_SPACE_IO, 4, 0x2e8, 0x2e8, 6},   {0, ACPI_SPACE_IO, 6, 0x6ab0, 0x6ab0, 2},
        {0, ACPI_SPACE_IO, 0, 0x3f8, 0x3f8, 0},      {0, ACPI_SPACE_IO, 255, 0x3f8, 0x3f8, 0},
        {0, ACPI_SPACE_MEMORY, 7, 0xfe032000, 0, 1}, {3, ACPI_SPACE_IO, 7, 0x3f8, 0, 1},
        {0, ACPI_SPACE_IO, 7, 0x103f8, 0, 1},
    };
    struct serial_line line = acpi_find_serial_line(rsdp());

    assert_int_equal(line.port, SERIAL_COM1);
    assert_int_equal(line.divisor, 1);
    assert_null(line.unused);
    t->xsdt.entries[0] = (uintptr_t)&spcr;
    for (unsigned i = 0; i < COUNT(cases); i++) {
        spcr.type = cases[i].type;
        spcr.base = (struct acpi_generic_address){
            .space_id = cases[i].space, .bit_width = 8, .address = cases[i].address};
        spcr.baud = cases[i].baud;
        fill_header(&spcr.header, "SPCR", sizeof(spcr));
        line = acpi_find_serial_line(rsdp());
        assert_int_equal(line.port, cases[i].port == 0 ? SERIAL_COM1 : cases[i].port);
        assert_int_equal(line.divisor, cases[i].divisor);
        assert_true(line.unused == (cases[i].port == 0 ? (void *)&spcr : NULL));
    }
    spcr.base.address = 0; /* firmware's console is off */
    line = acpi_find_serial_line(rsdp());
    assert_int_equal(line.port, SERIAL_COM1);
    assert_null(line.unused);
    spcr.base.address = 0x2f8;
    fill_header(&spcr.header, "SPCR", 58); /* ends before the rate */
    assert_int_equal(acpi_find_serial_line(rsdp()).port, SERIAL_COM1);
}

/* ---- the guest's tables ---- */

/* All sums right, and the originals untouched but for the lists. */
static void check_edit(uint32_t apic_id, const uint32_t wanted_flags[5])
{
    struct tables before = *t;
    struct guest_acpi_result done = guest_acpi_edit(rsdp(), keep(apic_id), DOORBELL, area,
                                                    AREA_SIZE);
    assert_true(done.processors_limited);
    assert_true(done.reset_watched);

    const struct acpi_madt *madt = (const void *)acpi_find_table(rsdp(), "APIC", 0);
    const struct acpi_fadt *fadt = (const void *)acpi_find_table(rsdp(), "FACP", 0);
    assert_non_null(madt); /* with a right checksum, in a list with a right checksum */
    assert_non_null(fadt);
    assert_ptr_not_equal(madt, &t->madt);
    assert_ptr_not_equal(fadt, &t->facp);
    assert_memory_equal(&before.madt, &t->madt, sizeof(t->madt));
    assert_memory_equal(&before.facp, &t->facp, sizeof(t->facp));
    assert_int_equal(t->xsdt.entries[0], (uintptr_t)&t->other);
    assert_int_equal(t->xsdt.entries[1], t->rsdt.entries[1]);
    assert_int_equal(t->xsdt.entries[2], t->rsdt.entries[2]);
    assert_int_equal(acpi_checksum(&t->xsdt, sizeof(t->xsdt)), 0);
    assert_int_equal(acpi_checksum(&t->rsdt, sizeof(t->rsdt)), 0);

    const typeof(t->madt) *copy = (const void *)madt;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(copy->apic[i].flags, wanted_flags[i]);
        assert_int_equal(copy->apic[i].apic_id, 2u * i == apic_id ? apic_id : 0xff);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(copy->x2apic[i].flags, wanted_flags[3 + i]);
        assert_int_equal(copy->x2apic[i].x2apic_id, 0x100u + i == apic_id ? apic_id : 0xffffffffu);
    }
    assert_memory_equal(&copy->io_apic, &t->madt.io_apic, sizeof(copy->io_apic));

    assert_int_equal(fadt->reset_register.space_id, ACPI_SPACE_MEMORY);
    assert_int_equal(fadt->reset_register.bit_width, 8);
    assert_int_equal(fadt->reset_register.bit_offset, 0);
    assert_int_equal(fadt->reset_register.address, DOORBELL);
    assert_int_equal(fadt->reset_value, 6);
    assert_int_equal(fadt->flags, ACPI_FADT_RESET_REG_SUP);
    assert_int_equal(fadt->header.length, sizeof(t->facp));
}

TEST(test_edit_keeps_one) { check_edit(2, (const uint32_t[]){0, ACPI_MADT_ENABLED, 0, 0, 0}); }

TEST(test_edit_keeps_one_x2apic)
{
    check_edit(0x100, (const uint32_t[]){0, 0, 0, ACPI_MADT_ENABLED, 0});
}

/* The copy of the MADT's last entry but `back`. */
static const uint8_t *edited_entry(uint32_t keeps, unsigned back)
{
    assert_true(guest_acpi_edit(rsdp(), keep(keeps), DOORBELL, area, AREA_SIZE).processors_limited);
    const typeof(t->madt) *copy = (const void *)acpi_find_table(rsdp(), "APIC", 0);
    return (const uint8_t *)&copy->x2apic[1 - back];
}

TEST(test_edit_sapic)
{
    uint8_t none[sizeof(sapic)] = {7, 16, 9, 0xff, 0xff};

    memcpy(&t->madt.x2apic[1], sapic, sizeof(sapic));
    seal_all();
    assert_memory_equal(edited_entry(2, 0), none, sizeof(none));
}

TEST(test_edit_keeps_sapic)
{
    memcpy(&t->madt.x2apic[1], sapic, sizeof(sapic));
    seal_all();
    assert_memory_equal(edited_entry(0x1234, 0), sapic, sizeof(sapic));
}

/* The mailbox of type 10H, by which firmware wakes processors that it no longer has. */
TEST(test_edit_wakeup)
{
    static const uint8_t wakeup[16] = {0x10, 16, 0, 0, 0, 0, 0, 0, 0, 0, 1};

    memcpy(&t->madt.x2apic[0], wakeup, sizeof(wakeup));
    seal_all();
    const uint8_t *entry = edited_entry(2, 1);
    assert_int_equal(entry[0], 0xff); /* an OEM's: nobody's here */
    assert_int_equal(entry[1], sizeof(wakeup));
}

TEST(test_edit_unknown_processor)
{
    struct guest_acpi_result done = guest_acpi_edit(rsdp(), keep(77), DOORBELL, area, AREA_SIZE);
    assert_false(done.processors_limited);
    assert_true(done.reset_watched);
    assert_ptr_equal(acpi_find_table(rsdp(), "APIC", 0), &t->madt);
}

TEST(test_edit_too_little_room)
{
    struct tables before = *t;
    uint64_t needed = guest_acpi_size(rsdp());
    assert_true(needed >= sizeof(t->madt) + sizeof(t->facp));
    struct guest_acpi_result done = guest_acpi_edit(rsdp(), keep(0), DOORBELL, area, needed - 1);
    assert_false(done.processors_limited || done.reset_watched);
    assert_memory_equal(&before, t, sizeof(*t));
}

TEST(test_edit_without_reset)
{
    t->facp.fadt.flags = 0;
    seal_all();
    struct guest_acpi_result done = guest_acpi_edit(rsdp(), keep(0), DOORBELL, area, AREA_SIZE);
    assert_true(done.processors_limited);
    assert_false(done.reset_watched);
    assert_ptr_equal(acpi_find_table(rsdp(), "FACP", 0), &t->facp);
}

/* ---- sleep states ---- */

/* Name (\_S3, Package {5, 5, 0, 0}), Name (_S5, Package {7, 1}) with a long PkgLength, and what
 * only looks like a name. */
static const uint8_t aml[] = {0x08, '\\', '_',  'S', '3',  '_',  0x12, 0x08, 4,   0x0a, 5,
                              0x0a, 5,    0,    0,   0x08, '_',  'S',  '5',  '_', 0x12, 0x46,
                              0x00, 2,    0x0a, 7,   1,    0x70, '_',  'S',  '4', '_',  0};

static void set_dsdt(const void *bytes, size_t size)
{
    memset(t->dsdt.aml, 0, sizeof(t->dsdt.aml));
    memcpy(t->dsdt.aml, bytes, size);
    t->facp.fadt.dsdt = (uint32_t)(uintptr_t)&t->dsdt;
    seal_all();
}

TEST(test_s5_is_read)
{
    assert_int_equal(read_facts().s5_type[0], SLP_TYP_UNKNOWN);
    set_dsdt(aml, sizeof(aml));
    struct acpi_facts f = read_facts();
    assert_int_equal(f.s5_type[0], 7);
    assert_int_equal(f.s5_type[1], 1);
    assert_memory_equal(t->dsdt.aml, aml, sizeof(aml));
}

TEST(test_s5_is_cut_off)
{
    for (size_t size = 1; size < 12; size++) {
        set_dsdt(aml, 0);
        memcpy(t->dsdt.aml + sizeof(t->dsdt.aml) - size, aml + 15, size);
        seal_all();
        assert_int_equal(read_facts().s5_type[0], SLP_TYP_UNKNOWN);
    }
}

TEST(test_other_sleep_is_hidden)
{
    set_dsdt(aml, sizeof(aml));
    acpi_read_sleep_states(rsdp(), NULL);
    assert_int_equal(acpi_checksum(&t->dsdt, sizeof(t->dsdt)), 0);
    assert_int_equal(t->dsdt.aml[2], 'X');
    t->dsdt.aml[2] = '_';
    assert_memory_equal(t->dsdt.aml, aml, sizeof(aml));
    assert_int_equal(sealed_facts().s5_type[0], 7);
}
