/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads the ACPI tables, to collect the facts about this machine that the hypervisor needs. Pure,
 * except for lines in the log.
 */
#include "boot/acpi.h"

#include <string.h>

#include "bits.h"
#include "console/log.h"

/* A processor may have MADT entries of more than one kind, but apic_id[] lists each APIC ID
 * once. */
static void read_processors(struct acpi_madt *madt, struct acpi_facts *facts)
{
    uint32_t apic_id;

    for (struct acpi_madt_entry *e = acpi_madt_next(madt, NULL); e != NULL;
         e = acpi_madt_next(madt, e)) {
        uint32_t known = 0;
        if (!acpi_madt_read_processor(e, &apic_id))
            continue;
        while (known < facts->processors && known < PROCESSORS_MAX &&
               facts->apic_id[known] != apic_id)
            known++;
        if (known == PROCESSORS_MAX)
            facts->processors++;
        else if (known == facts->processors)
            facts->apic_id[facts->processors++] = apic_id;
    }
}

/* Uses the FADT's 64-bit X_ field if the table has that field and the field names an I/O port.
 * Otherwise uses the 32-bit field. */
static uint16_t choose_fadt_port(uint32_t narrow, const struct acpi_generic_address *wide)
{
    if (wide != NULL && wide->space_id == ACPI_SPACE_IO && wide->address != 0)
        return (uint16_t)wide->address;
    return (uint16_t)narrow;
}

static void read_fadt(const struct acpi_fadt *fadt, struct acpi_facts *facts)
{
    const struct acpi_fadt_wide *wide = (const struct acpi_fadt_wide *)fadt;
    bool is_wide = fadt->header.length >= sizeof(*wide);

    facts->pm1a_control = choose_fadt_port(fadt->pm1a_control,
                                           is_wide ? &wide->x_pm1a_control : NULL);
    facts->pm1b_control = choose_fadt_port(fadt->pm1b_control,
                                           is_wide ? &wide->x_pm1b_control : NULL);
    if (fadt->pm_timer_length == ACPI_PM_TIMER_BYTES)
        facts->pm_timer = choose_fadt_port(fadt->pm_timer, is_wide ? &wide->x_pm_timer : NULL);
    facts->reset_supported = fadt->header.length >= sizeof(*fadt) &&
                             fadt->flags & ACPI_FADT_RESET_REG_SUP;
    if (facts->reset_supported) {
        facts->reset_register = (struct acpi_address){
            .space_id = fadt->reset_register.space_id,
            .bit_width = fadt->reset_register.bit_width,
            .address = fadt->reset_register.address,
        };
        facts->reset_value = fadt->reset_value;
    }
}

/* ---- checks of the tables ---- */

static void warn_of_damaged_table(const char *name, const struct acpi_header *table)
{
    if (table->length < sizeof(*table) || table->length > ACPI_TABLE_MAX)
        log_printf(
            "warning: ACPI table %s: found %u bytes, wanted %lu to %u: it counts as absent\n", name,
            table->length, sizeof(*table), ACPI_TABLE_MAX);
    else if (acpi_checksum(table, table->length) != 0)
        log_printf(
            "warning: ACPI table %s: its checksum is wrong; it is used all the same, as Linux "
            "does\n",
            name);
}

/* Checks a list of tables, and then the tables in the list that the hypervisor uses. */
static void warn_of_damaged_list(const char *name, const struct acpi_list *list)
{
    static const char used[][5] = {"APIC", "DMAR", "FACP", "SPCR", "SSDT"};

    warn_of_damaged_table(name, list->table);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct acpi_header *table = (const struct acpi_header *)(uintptr_t)
            acpi_get_table_address(list, i);
        if ((uintptr_t)table >= ACPI_ADDRESS_END)
            continue;
        for (unsigned k = 0; table != NULL && k < LENGTH_OF(used); k++)
            if (memcmp(table->signature, used[k], sizeof(table->signature)) == 0)
                warn_of_damaged_table(used[k], table);
    }
}

void acpi_warn_of_damage(uint64_t rsdp)
{
    struct acpi_list list = acpi_read_list(rsdp);
    const struct acpi_header *dsdt = acpi_find_dsdt(rsdp);

    if (list.table != NULL)
        warn_of_damaged_list(list.entry_size == sizeof(uint64_t) ? "XSDT" : "RSDT", &list);
    if (dsdt != NULL)
        warn_of_damaged_table("DSDT", dsdt);
}

/* ---- the console ---- */

struct serial_line acpi_find_serial_line(uint64_t rsdp)
{
    /* UART divisors (115200 / rate), indexed by the SPCR's code for the rate. The other codes are
     * reserved. */
    static const uint8_t divisors[] = {
        [SPCR_BAUD_UNCHANGED] = 0, [3] = 12, [4] = 6, [6] = 2, [7] = 1};
    const struct acpi_spcr *spcr = (const struct acpi_spcr *)acpi_find_table(
        rsdp, "SPCR", sizeof(struct acpi_spcr));

    if (spcr == NULL || spcr->base.address == 0)
        return (struct serial_line){.port = SERIAL_COM1, .divisor = DIVISOR_115200};
    bool uart = spcr->interface_type <= SPCR_16450 || spcr->interface_type == SPCR_16550_GAS;
    if (!uart || spcr->base.space_id != ACPI_SPACE_IO || spcr->base.address > CONSOLE_PORT_MAX)
        return (struct serial_line){SERIAL_COM1, DIVISOR_115200, spcr};
    return (struct serial_line){
        .port = (uint16_t)spcr->base.address,
        .divisor = spcr->baud_rate < sizeof(divisors) ? divisors[spcr->baud_rate] : 0,
    };
}

/* ---- facts ---- */

void acpi_facts_read(uint64_t rsdp, struct acpi_facts *facts)
{
    *facts = (struct acpi_facts){.rsdp = rsdp, .s5_type = {SLP_TYP_UNKNOWN, SLP_TYP_UNKNOWN}};
    acpi_read_sleep_states(rsdp, facts);

    struct acpi_header *fadt = acpi_find_table(rsdp, "FACP",
                                               offsetof(struct acpi_fadt, reset_register));
    if (fadt != NULL)
        read_fadt((const struct acpi_fadt *)fadt, facts);

    struct acpi_header *madt = acpi_find_table(rsdp, "APIC", sizeof(struct acpi_madt));
    if (madt != NULL)
        read_processors((struct acpi_madt *)madt, facts);
}
