/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Taking a table out of the ACPI lists, on tables made here.
 */
#define SETUP start
#define TEARDOWN stop
#define _GNU_SOURCE /* MAP_32BIT: an RSDT holds 32-bit addresses */
#include "unit.h"

#include <sys/mman.h>

#include "guest/acpi_edit.h"
#include "lib/acpi.h"

#define TABLES 4

static struct tables {
    struct acpi_rsdp rsdp;
    uint8_t padding[4]; /* the XSDT's entries end up on addresses that 8 does not divide */
    struct {
        struct acpi_header header;
        uint64_t entries[TABLES];
    } __attribute__((packed)) xsdt;
    struct {
        struct acpi_header header;
        uint32_t entries[TABLES];
    } __attribute__((packed)) rsdt;
    struct acpi_header table[TABLES];
} __attribute__((packed)) * t;

static void seal(struct acpi_header *h, const char *signature, uint32_t length)
{
    memcpy(h->signature, signature, sizeof(h->signature));
    h->length = length;
    acpi_set_checksum(h);
}

/* Lists that name tables with these signatures; gives the RSDP. */
static uint64_t lists(const char *const signatures[TABLES])
{
    memset(t, 0, sizeof(*t));
    for (unsigned i = 0; i < TABLES; i++) {
        seal(&t->table[i], signatures[i], sizeof(t->table[i]));
        t->xsdt.entries[i] = (uintptr_t)&t->table[i];
        t->rsdt.entries[i] = (uint32_t)(uintptr_t)&t->table[i];
    }
    seal(&t->xsdt.header, "XSDT", sizeof(t->xsdt));
    seal(&t->rsdt.header, "RSDT", sizeof(t->rsdt));
    memcpy(t->rsdp.signature, "RSD PTR ", sizeof(t->rsdp.signature));
    t->rsdp.revision = 2;
    t->rsdp.length = sizeof(t->rsdp);
    t->rsdp.xsdt = (uintptr_t)&t->xsdt;
    t->rsdp.rsdt = (uint32_t)(uintptr_t)&t->rsdt;
    t->rsdp.checksum = (uint8_t)-acpi_checksum(&t->rsdp, ACPI_RSDP_V1_LENGTH);
    t->rsdp.extended_checksum = (uint8_t)-acpi_checksum(&t->rsdp, sizeof(t->rsdp));
    return (uintptr_t)&t->rsdp;
}

/* Both lists are in order and name these tables, by their number, and no more. */
static void assert_lists(uint64_t rsdp, const unsigned *wanted, uint32_t count)
{
    const struct acpi_list list[] = {acpi_read_xsdt(rsdp), acpi_read_rsdt(rsdp)};

    for (unsigned n = 0; n < 2; n++) {
        assert_non_null(list[n].table);
        assert_int_equal(list[n].count, count);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(acpi_get_table_address(&list[n], i), (uintptr_t)&t->table[wanted[i]]);
    }
}

static int start(void **state)
{
    (void)state;
    t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1,
             0);
    return t == MAP_FAILED;
}

static int stop(void **state)
{
    (void)state;
    return munmap(t, sizeof(*t));
}

TEST(one_of_four)
{
    static const char *const signatures[] = {"FACP", "DMAR", "APIC", "SSDT"};

    uint64_t rsdp = lists(signatures);
    assert_true(guest_acpi_hide(rsdp, "DMAR"));
    assert_lists(rsdp, (const unsigned[]){0, 2, 3}, 3);
    assert_null(acpi_find_table(rsdp, "DMAR", 0));
    assert_true(guest_acpi_hide(rsdp, "DMAR"));
    assert_lists(rsdp, (const unsigned[]){0, 2, 3}, 3);
}

TEST(all_of_that_name)
{
    static const char *const signatures[] = {"DMAR", "APIC", "DMAR", "DMAR"};

    uint64_t rsdp = lists(signatures);
    assert_true(guest_acpi_hide(rsdp, "DMAR"));
    assert_lists(rsdp, (const unsigned[]){1}, 1);
}

TEST(only_one_list)
{
    static const char *const signatures[] = {"FACP", "APIC", "SSDT", "DMAR"};

    uint64_t rsdp = lists(signatures);
    t->xsdt.header.checksum++;
    assert_true(guest_acpi_hide(rsdp, "DMAR"));
    assert_null(acpi_find_table(rsdp, "DMAR", 0));
    t->rsdt.header.checksum++;
    assert_true(guest_acpi_hide(rsdp, "DMAR")); /* there is none to be seen */
}
