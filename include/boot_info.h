/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Everything that boot/ learns from the firmware, in one struct without any UEFI type. boot/ fills
 * the struct and calls hypervisor_start(). No code after that call knows about firmware.
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

/* The UEFI memory map as GetMemoryMap returned it (UEFI specification,
 * "EFI_BOOT_SERVICES.GetMemoryMap"). The buffer lies in EfiLoaderData and is passed on to Linux. */
struct efi_map {
    void *entries;
    uint64_t size;            /* bytes in use */
    uint64_t descriptor_size; /* distance between entries in bytes; may exceed the struct's size */
    uint32_t descriptor_version;
    uint64_t system_table; /* physical address of EFI_SYSTEM_TABLE */
};

struct framebuffer {
    uint64_t base;            /* physical address */
    uint64_t size;            /* bytes */
    uint32_t width;           /* pixels */
    uint32_t height;          /* pixels */
    uint32_t pixels_per_line; /* from the start of one line to the next */
    /* The bits of each component in a 32-bit pixel. */
    uint32_t red_mask;
    uint32_t green_mask;
    uint32_t blue_mask;
    uint32_t reserved_mask;
};

/* The fields of ACPI's generic address structure that are used here (ACPI specification, "Generic
 * Address Structure"). */
struct acpi_address {
    uint8_t space_id;  /* 0: system memory, 1: system I/O, 2: PCI configuration */
    uint8_t bit_width; /* the register's width in bits */
    uint64_t address;  /* the register's address in that space */
};

/* The processors that the guest may start. */
struct guest_processors {
    uint32_t count;
    uint32_t apic_id[PROCESSORS_MAX];
};

#define SLP_TYP_UNKNOWN 0xff /* no value of SLP_TYP, which has three bits */
struct acpi_facts {
    uint64_t rsdp;                    /* physical address; 0: none found */
    uint32_t processors;              /* enabled processors in the MADT; 0 without a MADT */
    uint32_t apic_id[PROCESSORS_MAX]; /* IDs of the first PROCESSORS_MAX enabled processors */
    uint16_t pm1a_control;            /* I/O port of PM1a control; 0: none */
    uint16_t pm1b_control;            /* I/O port of PM1b control; 0: none */
    uint16_t pm_timer;                /* I/O port of the PM timer; 0: none */
    uint8_t s5_type[2];               /* SLP_TYP for power-off, first for PM1a, then for PM1b */
    bool reset_supported;             /* FADT flag RESET_REG_SUP */
    struct acpi_address reset_register;
    uint8_t reset_value; /* the value that a reset writes to the reset register */
};

/* The facts in the setup header of a bzImage. Sizes in bytes. */
struct linux_image {
    uint64_t setup_size; /* real-mode part; the kernel proper follows it in the file */
    uint64_t kernel_size;
    uint64_t init_size; /* memory the kernel needs from its start on */
    uint64_t alignment;
    uint64_t preferred;        /* preferred load address, and the lowest at which the kernel runs */
    uint64_t initrd_max;       /* highest address of the initrd's last byte */
    uint64_t command_line_max; /* without the terminator */
    uint16_t protocol;         /* major << 8 | minor */
};

struct boot_info {
    struct options options; /* the user's choices; `settings` has the values that apply */
    struct range image;     /* the loaded pmuvisor.efi; hidden from the guest */
    struct range pool;      /* the hypervisor's own memory, 2 MiB aligned; hidden from the guest */
    struct range kernel_file;  /* the bzImage as read from the volume */
    struct linux_image kernel; /* what the bzImage says of itself */
    struct range initrd;       /* size 0: none */
    struct range guest_kernel; /* the kernel runs here: init_size bytes, at kernel_alignment */
    struct range trampoline;   /* one page below 1 MiB that starts processors and then belongs to
                                  the guest; size 0: none */
    struct range guest_setup;  /* boot_params, command line, first page tables, GDT, ACPI copies */
    struct efi_map map;
    struct framebuffer framebuffer; /* base 0: none */
    struct acpi_facts acpi;
    struct settings
        settings; /* the values that apply here; valid after hypervisor_check_requirements() */
    uint64_t memory_top; /* end of the memory in the memory map, without devices */
};

#define POOL_ALIGNMENT (2ULL << 20)
/* The log follows the pool's first page. The next start looks for it there (boot/last.c). */
#define POOL_LOG_OFFSET PAGE_SIZE

/* Returns the address of the pool's first page. The hypervisor never uses this page, and the
 * guest's EPT does not map it. The guest's FADT names the page as the reset register, so a reset
 * arrives in root mode as an EPT violation. (The usual reset port 0xcf9 cannot be watched alone,
 * because every 4-byte access to PCI's 0xcf8 would exit too.) */
static inline uint64_t get_reset_doorbell(const struct boot_info *bi) { return bi->pool.base; }
