/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Everything that boot/ learns from the firmware, in one struct without any UEFI type.
 * boot/ fills it and calls hypervisor_start(); nothing after that call knows firmware.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "options.h"

#define PAGE_SIZE 4096ULL

struct range {
    uint64_t base; /* physical address */
    uint64_t size; /* bytes */
};

/* The UEFI memory map as GetMemoryMap left it (UEFI specification,
 * "EFI_BOOT_SERVICES.GetMemoryMap"). The buffer lies in EfiLoaderData and is handed on to Linux. */
struct efi_map {
    void *entries;
    uint64_t size, descriptor_size; /* bytes in use; the stride, larger than the struct itself */
    uint32_t descriptor_version;
    uint64_t system_table; /* physical address of EFI_SYSTEM_TABLE */
};

struct framebuffer {
    uint64_t base, size;
    uint32_t width, height; /* pixels */
    uint32_t pixels_per_line;
    uint32_t red_mask, green_mask, blue_mask, reserved_mask; /* 32-bit pixels */
};

/* ACPI generic address (ACPI specification, "Generic Address Structure"), the fields used here. */
struct acpi_address {
    uint8_t space_id, bit_width; /* 0 system memory, 1 system I/O, 2 PCI configuration */
    uint64_t address;
};

/* The processors that the guest may start. */
struct guest_processors {
    uint32_t count;
    uint32_t apic_id[PROCESSORS_MAX];
};

#define SLP_TYP_UNKNOWN 0xff /* SLP_TYP has three bits */
struct acpi_facts {
    uint64_t rsdp;                                 /* 0: none found */
    uint32_t processors;                           /* in the MADT and enabled; 0 without a MADT */
    uint32_t apic_id[PROCESSORS_MAX];              /* of the first so many of them */
    uint16_t pm1a_control, pm1b_control, pm_timer; /* I/O ports, 0: none */
    uint8_t s5_type[2];   /* what power-off writes to PM1 control as SLP_TYP */
    bool reset_supported; /* FADT flag RESET_REG_SUP */
    struct acpi_address reset_register;
    uint8_t reset_value;
};

struct boot_info {
    struct options options; /* what the user asked for; what holds is in `settings` */
    struct range image;     /* the loaded pmuvisor.efi; hidden from the guest */
    struct range pool;      /* the hypervisor's own memory, 2 MiB aligned; hidden from the guest */
    struct range kernel_file;  /* bzImage as read from the volume */
    struct range initrd;       /* size 0: none */
    struct range guest_kernel; /* where the kernel will run: init_size bytes, kernel_alignment */
    struct range
        trampoline; /* one page below 1 MiB to start processors, then the guest's; or none */
    struct range guest_setup; /* boot_params, command line, first page tables, GDT, ACPI copies */
    struct efi_map map;
    struct framebuffer framebuffer; /* base 0: none */
    struct acpi_facts acpi;
    struct settings settings; /* what holds on this machine, from hypervisor_check() on */
    uint64_t memory_top;      /* end of the memory that the memory map names, devices left out */
};

#define POOL_ALIGNMENT (2ULL << 20)
/* The pool's first block is the log's: where the next start looks for it (boot/last.c). */
#define POOL_LOG_OFFSET PAGE_SIZE

/* The first page of the pool is never used by the hypervisor and, like all of the pool, not mapped
 * for the guest: the guest's FADT names it as the reset register, so a reset arrives as an EPT
 * violation here. (The usual reset port 0xcf9 cannot be watched alone: every 4-byte access to
 * PCI's 0xcf8 would exit too.) */
static inline uint64_t reset_doorbell(const struct boot_info *bi) { return bi->pool.base; }
