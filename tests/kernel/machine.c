/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The machine around the processor: power-off and reset through ACPI, and which hypervisor this is.
 * ACPI specification, "Sleep Control", "Reset Register", "Finding the RSDP"; SDM Vol. 2, "CPUID".
 */
#include "kernel.h"

#include <string.h>

#include "boot/acpi.h"
#include "console/log.h"
#include "guest/e820.h"
#include "hypercall.h"

#define RSDP_FIRST 0xe0000 /* a BIOS puts it here */
#define RSDP_LAST 0xffff0
#define RSDP_STEP 16
#define RESET_PORT 0xcf9
#define RESET_FULL 0x06
#define PIC_1_DATA 0x21
#define PIC_2_DATA 0xa1
#define PIC_ALL_MASKED 0xff
#define LOW_MEMORY_END 0x100000
#define PAGE_IN 0x1000
#define SPIN_BEFORE_RESET 100000000u

#define EFI_SIGNATURE_64 0x34364c45u /* "EL64" */

/* UEFI specification, "EFI System Table", "EFI Configuration Table". */
struct efi_guid {
    uint32_t a;
    uint16_t b, c;
    uint8_t d[8];
};
struct efi_configuration_table {
    struct efi_guid guid;
    uint64_t table;
};
struct efi_system_table {
    uint8_t before_count[104];
    uint64_t count;
    const struct efi_configuration_table *tables;
};
static const struct efi_guid acpi_20_guid = {
    0x8868e871, 0xe4f1, 0x11d3, {0xbc, 0x22, 0x00, 0x80, 0xc7, 0x3c, 0x88, 0x81}};

static struct acpi_facts acpi;
static const struct boot_params *boot_params;
static uint64_t rsdp;

static uint64_t find_rsdp(const struct boot_params *bp)
{
    struct efi_info efi = bp->efi_info;

    if (bp->acpi_rsdp_addr != 0)
        return bp->acpi_rsdp_addr;
    if (efi.efi_loader_signature == EFI_SIGNATURE_64) {
        const struct efi_system_table *t = (const void *)(efi.efi_systab |
                                                          (uint64_t)efi.efi_systab_hi << 32);
        for (uint64_t i = 0; i < t->count; i++)
            if (memcmp(&t->tables[i].guid, &acpi_20_guid, sizeof(acpi_20_guid)) == 0)
                return t->tables[i].table;
    }
    for (uint64_t at = RSDP_FIRST; at <= RSDP_LAST; at += RSDP_STEP)
        if (memcmp((const void *)at, "RSD PTR ", 8) == 0 &&
            acpi_checksum((const void *)at, ACPI_RSDP_V1_LENGTH) == 0)
            return at;
    return 0;
}

/* Firmware's timers may still run: their interrupts are not wanted while a test sets IF. */
static void mask_pic(void)
{
    outb(PIC_1_DATA, PIC_ALL_MASKED);
    outb(PIC_2_DATA, PIC_ALL_MASKED);
}

void machine_setup(const struct boot_params *bp)
{
    rsdp = find_rsdp(bp);
    boot_params = bp;
    mask_pic();
    if (rsdp == 0)
        return;
    acpi_facts_read(rsdp, &acpi);
}

static void reset(void)
{
    const struct acpi_address *r = &acpi.reset_register;

    if (acpi.reset_supported && r->space_id == ACPI_SPACE_IO)
        outb((uint16_t)r->address, acpi.reset_value);
    else if (acpi.reset_supported && r->space_id == ACPI_SPACE_MEMORY)
        *(volatile uint8_t *)r->address = acpi.reset_value;
    outb(RESET_PORT, RESET_FULL);
}

void machine_off(void)
{
    uint8_t type = acpi.s5_type[0] == SLP_TYP_UNKNOWN ? 0 : acpi.s5_type[0];
    uint16_t value = (uint16_t)(type << PM1_SLP_TYP_SHIFT | PM1_SLP_EN);

    serial_drain();
    cli();
    if (acpi.pm1a_control != 0) {
        outw(acpi.pm1a_control, value);
        if (acpi.pm1b_control != 0)
            outw(acpi.pm1b_control, value);
        linger(SPIN_BEFORE_RESET);
    }
    reset();
    halt_forever();
}

const struct boot_params *machine_boot_params(void) { return boot_params; }
uint64_t machine_rsdp(void) { return rsdp; }
uint16_t machine_pm1a_control(void) { return (uint16_t)acpi.pm1a_control; }
uint8_t machine_s5_type(void) { return acpi.s5_type[0]; }

unsigned machine_sleep_names(void)
{
    const struct acpi_fadt *fadt = (const void *)acpi_find_table(acpi.rsdp, "FACP", sizeof(*fadt));
    const struct acpi_header *dsdt = fadt == NULL
                                         ? NULL
                                         : acpi_validate_table(fadt->dsdt, "DSDT", sizeof(*dsdt));
    unsigned names = 0;

    for (uint32_t i = sizeof(*dsdt); dsdt != NULL && i + 4 <= dsdt->length; i++) {
        const char *name = (const char *)dsdt + i;
        if (name[0] == '_' && name[1] == 'S' && name[2] >= '1' && name[2] <= '5' && name[3] == '_')
            names |= 1u << (name[2] - '0');
    }
    return names;
}

uint64_t machine_reset_address(void) { return acpi.reset_register.address; }

bool under_pmuvisor(void)
{
    struct cpuid_result r = cpuid(CPUID_HV_SIGNATURE, 0);
    return r.ebx == PMUVISOR_SIGNATURE_EBX && r.ecx == PMUVISOR_SIGNATURE_ECX &&
           r.edx == PMUVISOR_SIGNATURE_EDX;
}

int64_t hypercall(uint64_t number, uint64_t argument)
{
    int64_t result;

    __asm__ volatile("vmcall"
                     : "=a"(result), "+b"(argument)
                     : "a"(number)
                     : "rcx", "rdx", "rsi", "rdi", "memory");
    return result;
}

uint64_t exits_of(unsigned reason) { return (uint64_t)hypercall(HYPERCALL_STATISTICS, reason); }

bool machine_reserved(unsigned n, uint64_t *base, uint64_t *size)
{
    for (unsigned i = 0; i < boot_params->e820_entries; i++) {
        const struct boot_e820_entry *e = &boot_params->e820_table[i];

        if (e->type != E820_RESERVED || e->addr < LOW_MEMORY_END || n-- != 0)
            continue;
        *base = (e->addr + PAGE_IN - 1) & ~(uint64_t)(PAGE_IN - 1);
        *size = (e->addr + e->size - *base) & ~(uint64_t)(PAGE_IN - 1);
        return true;
    }
    return false;
}

uint64_t machine_doorbell(void)
{
    return acpi.reset_register.space_id == ACPI_SPACE_MEMORY ? acpi.reset_register.address : 0;
}

/* In a reserved range that ends in what no one else could hide: only the hypervisor's own memory
 * answers a read with #GP. Not a range's first page, which may be the reset doorbell. */
uint64_t hidden_address(void)
{
    if (!under_pmuvisor())
        return 0;
    for (unsigned i = 0; i < boot_params->e820_entries; i++) {
        const struct boot_e820_entry *e = &boot_params->e820_table[i];
        uint64_t last = (e->addr + e->size - PAGE_IN) & ~(uint64_t)(PAGE_IN - 1);

        if (e->type != E820_RESERVED || e->addr < LOW_MEMORY_END || e->size < 2 * PAGE_IN)
            continue;
        uint64_t value;
        if (!read_try(last, &value))
            return last;
    }
    return 0;
}
