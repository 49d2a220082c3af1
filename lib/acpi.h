/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The ACPI tables that PMUvisor reads or edits, and the walk from the RSDP to them. Physical
 * addresses are used as pointers, so memory must be mapped to itself. (ACPI specification, "ACPI
 * Software Programming Model", "Root System Description Pointer", "FADT", "MADT".)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boot_info.h"

#define ACPI_ADDRESS_END (1ULL << 47) /* firmware's identity mapping ends here or lower */
#define ACPI_TABLE_MAX (16u << 20)    /* a table longer than this counts as absent */

struct acpi_rsdp {
    char signature[8]; /* "RSD PTR " */
    uint8_t checksum;  /* of the first 20 bytes */
    char oem_id[6];
    uint8_t revision; /* 0: the fields from `length` on do not exist */
    uint32_t rsdt;    /* physical address */
    uint32_t length;
    uint64_t xsdt; /* physical address */
    uint8_t extended_checksum;
    uint8_t reserved[3];
} __attribute__((packed));
#define ACPI_RSDP_V1_LENGTH 20
_Static_assert(sizeof(struct acpi_rsdp) == 36, "RSDP of ACPI 2.0");
_Static_assert(offsetof(struct acpi_rsdp, length) == ACPI_RSDP_V1_LENGTH, "RSDP of ACPI 1.0");

struct acpi_header {
    char signature[4];
    uint32_t length; /* bytes of the whole table */
    uint8_t revision;
    uint8_t checksum; /* makes the sum of all bytes 0 */
    char oem_id[6];
    char oem_table_id[8];
    uint32_t oem_revision;
    char creator_id[4];
    uint32_t creator_revision;
} __attribute__((packed));
_Static_assert(sizeof(struct acpi_header) == 36, "ACPI table header");

struct acpi_generic_address {
    uint8_t space_id;
    uint8_t bit_width;
    uint8_t bit_offset;
    uint8_t access_size;
    uint64_t address;
} __attribute__((packed));
#define ACPI_SPACE_MEMORY 0
#define ACPI_SPACE_IO 1
#define ACPI_ACCESS_BYTE 1

/* The FADT up to the last field that is used here. */
struct acpi_fadt {
    struct acpi_header header;
    uint32_t firmware_control;
    uint32_t dsdt; /* physical address */
    uint8_t before_pm1a_control[20];
    uint32_t pm1a_control; /* PM1a_CNT_BLK */
    uint32_t pm1b_control; /* PM1b_CNT_BLK */
    uint32_t pm2_control;  /* PM2_CNT_BLK */
    uint32_t pm_timer;     /* PM_TMR_BLK */
    uint8_t before_pm_timer_length[11];
    uint8_t pm_timer_length; /* PM_TMR_LEN */
    uint8_t before_flags[20];
    uint32_t flags;
    struct acpi_generic_address reset_register; /* RESET_REG */
    uint8_t reset_value;                        /* RESET_VALUE */
} __attribute__((packed));
#define ACPI_FADT_RESET_REG_SUP (1u << 10)
#define ACPI_PM_TIMER_BYTES 4 /* value of pm_timer_length if the timer exists */
/* A longer FADT, up to the last 64-bit (X_) field that is used here. */
struct acpi_fadt_wide {
    struct acpi_fadt narrow;
    uint8_t before_x_dsdt[11];
    uint64_t x_dsdt;
    uint8_t before_x_pm1a_control[24];
    struct acpi_generic_address x_pm1a_control; /* X_PM1a_CNT_BLK */
    struct acpi_generic_address x_pm1b_control; /* X_PM1b_CNT_BLK */
    struct acpi_generic_address x_pm2_control;  /* X_PM2_CNT_BLK */
    struct acpi_generic_address x_pm_timer;     /* X_PM_TMR_BLK */
} __attribute__((packed));
_Static_assert(offsetof(struct acpi_fadt, pm1a_control) == 64, "FADT PM1a_CNT_BLK");
_Static_assert(offsetof(struct acpi_fadt, pm_timer) == 76, "FADT PM_TMR_BLK");
_Static_assert(offsetof(struct acpi_fadt, pm_timer_length) == 91, "FADT PM_TMR_LEN");
_Static_assert(offsetof(struct acpi_fadt, flags) == 112, "FADT Flags");
_Static_assert(offsetof(struct acpi_fadt, reset_register) == 116, "FADT RESET_REG");
_Static_assert(sizeof(struct acpi_fadt) == 129, "FADT through RESET_VALUE");
_Static_assert(offsetof(struct acpi_fadt_wide, x_pm1a_control) == 172, "FADT X_PM1a_CNT_BLK");
_Static_assert(sizeof(struct acpi_fadt_wide) == 220, "FADT through X_PM_TMR_BLK");

/* The PM1 control registers. */
#define PM1_CONTROL_BYTES 2
#define PM1_SLP_EN BIT(13)
#define PM1_SLP_TYP_SHIFT 10
#define PM1_SLP_TYP_MASK 7

struct acpi_madt {
    struct acpi_header header;
    uint32_t local_apic_address;
    uint32_t flags;
    uint8_t entries[];
} __attribute__((packed));

struct acpi_madt_entry {
    uint8_t type;
    uint8_t length; /* bytes of the whole entry */
} __attribute__((packed));

#define ACPI_MADT_LOCAL_APIC 0
struct acpi_madt_local_apic {
    struct acpi_madt_entry entry;
    uint8_t processor_uid;
    uint8_t apic_id;
    uint32_t flags;
} __attribute__((packed));

/* Linux accepts this kind on x86, too. The APIC ID is then (id << 8 | eid). */
#define ACPI_MADT_LOCAL_SAPIC 7
struct acpi_madt_local_sapic {
    struct acpi_madt_entry entry;
    uint8_t processor_uid;
    uint8_t id;
    uint8_t eid;
    uint8_t reserved[3];
    uint32_t flags;
    uint32_t uid_value;
} __attribute__((packed));
_Static_assert(offsetof(struct acpi_madt_local_sapic, flags) == 8, "Local SAPIC Flags");

#define ACPI_MADT_LOCAL_X2APIC 9
struct acpi_madt_local_x2apic {
    struct acpi_madt_entry entry;
    uint16_t reserved;
    uint32_t x2apic_id;
    uint32_t flags;
    uint32_t processor_uid;
} __attribute__((packed));

/* A mailbox through which an operating system wakes processors that wait in firmware. */
#define ACPI_MADT_MP_WAKEUP 16
#define ACPI_MADT_OEM 0xff /* types from 80H on are reserved for OEMs; Linux skips them */

/* IDs that stand for no processor. */
#define ACPI_NO_APIC_ID 0xff
#define ACPI_NO_SAPIC_ID 0xffff /* id and eid */
#define ACPI_NO_X2APIC_ID 0xffffffffu
#define ACPI_MADT_ENABLED (1u << 0)
#define ACPI_MADT_ONLINE_CAPABLE (1u << 1)

/* Describes firmware's own console (Microsoft, "Serial Port Console Redirection Table"). */
struct acpi_spcr {
    struct acpi_header header;
    uint8_t interface_type;
    uint8_t reserved[3];
    struct acpi_generic_address base;
    uint8_t before_baud_rate[6];
    uint8_t baud_rate;
} __attribute__((packed));
_Static_assert(offsetof(struct acpi_spcr, baud_rate) == 58, "SPCR Configured Baud Rate");
#define SPCR_16450 1 /* has no FIFO control register */
#define SPCR_16550_GAS 0x12
#define SPCR_BAUD_UNCHANGED 0

/* DMAR (VT-d specification, "DMA Remapping Reporting Structure"). */
struct dmar_table {
    struct acpi_header header;
    uint8_t address_width;
    uint8_t flags;
    uint8_t reserved[10];
    uint8_t structures[];
} __attribute__((packed));

struct dmar_structure {
    uint16_t type;
    uint16_t length; /* bytes of the whole structure */
} __attribute__((packed));
#define DMAR_DRHD 0
#define DMAR_RMRR 1

struct dmar_drhd {
    struct dmar_structure structure;
    uint8_t flags;
    uint8_t size; /* the registers take 4 KiB << (size & DRHD_SIZE) */
    uint16_t segment;
    uint64_t registers;
} __attribute__((packed));
#define DRHD_SIZE BITS(3, 0)
#define NO_ADDRESS BITS(63, 52) /* bits that no physical address has */

struct dmar_rmrr {
    struct dmar_structure structure;
    uint16_t reserved;
    uint16_t segment;
    uint64_t base;  /* address of the first byte */
    uint64_t limit; /* address of the last byte */
} __attribute__((packed));

/* The list of tables: an XSDT (8-byte entries) or an RSDT (4-byte entries). */
struct acpi_list {
    struct acpi_header *table; /* NULL: the list does not exist */
    uint32_t entry_size;       /* bytes */
    uint32_t count;            /* number of entries; 0 if the list does not exist */
};

/* Returns the sum of `length` bytes. The sum of a whole, undamaged table is 0. */
uint8_t acpi_checksum(const void *table, uint64_t length);
/* Sets the header's checksum. */
void acpi_set_checksum(struct acpi_header *table);
/* Returns the table at `address` if it has this signature and a length from `least` to
 * ACPI_TABLE_MAX bytes, otherwise NULL. If `signature` is NULL, accepts any signature. The table's
 * checksum may be wrong. */
struct acpi_header *acpi_validate_table(uint64_t address, const char *signature, uint64_t least);
/* Each reads one of the lists that the RSDP names. */
struct acpi_list acpi_read_xsdt(uint64_t rsdp);
struct acpi_list acpi_read_rsdt(uint64_t rsdp);
/* Reads the XSDT, or the RSDT if there is no XSDT. */
struct acpi_list acpi_read_list(uint64_t rsdp);
uint64_t acpi_get_table_address(const struct acpi_list *list, uint32_t index);
/* Overwrites one entry. The caller has to set the list's checksum afterwards. */
void acpi_set_table_address(const struct acpi_list *list, uint32_t index, uint64_t address);
/* Returns the first table with this signature in the XSDT, or in the RSDT if there is no XSDT.
 * Returns NULL if there is no such table. */
struct acpi_header *acpi_find_table(uint64_t rsdp, const char *signature, uint64_t least);

/* Returns the MADT entry after `entry`, or the first entry if `entry` is NULL. Returns NULL at the
 * end of the MADT, or if the length of the next entry is wrong. */
struct acpi_madt_entry *acpi_madt_next(struct acpi_madt *madt, struct acpi_madt_entry *entry);

/* Returns true if the entry is an enabled processor of any of the three kinds, and puts its APIC ID
 * into *apic_id. A processor that is only "online capable" does not exist yet. */
bool acpi_madt_read_processor(const struct acpi_madt_entry *entry, uint32_t *apic_id);
/* Disables a processor's entry and removes the processor's ID. Linux keeps room for a disabled
 * processor that has an ID, and the DSDT's _MAT could bring that processor back. The entry of the
 * wakeup mailbox (ACPI_MADT_MP_WAKEUP) becomes an OEM entry, because no processor waits in firmware
 * any more: processors start by INIT and SIPI. */
void acpi_madt_disable_processor(struct acpi_madt_entry *entry);

/* lib/acpi_sleep.c: returns the DSDT that the FADT names, or NULL if there is none. */
struct acpi_header *acpi_find_dsdt(uint64_t rsdp);
/* lib/acpi_sleep.c: if `facts` is not NULL, fills s5_type from the DSDT and the SSDTs if they
 * define \_S5. If `facts` is NULL, renames \_S1, \_S2, \_S3 and \_S4 in place, so that S5 is the
 * only sleep state that an operating system knows. */
void acpi_read_sleep_states(uint64_t rsdp, struct acpi_facts *facts);
