/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Linux as the guest: is a file a kernel that can be started, what memory does it need, and how is
 * it entered. (Linux, Documentation/arch/x86/boot.rst.)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "boot_info.h"
#include "guest/acpi_edit.h"
#include "lib/refusal.h"

/* What the setup header of a bzImage says. Sizes in bytes. */
struct linux_image {
    uint64_t setup_size; /* real-mode part; the kernel proper follows it in the file */
    uint64_t kernel_size;
    uint64_t init_size; /* memory the kernel needs from its start on */
    uint64_t alignment;
    uint64_t preferred;        /* address it likes best, and the lowest one it runs at */
    uint64_t initrd_max;       /* highest address of the initrd's last byte */
    uint64_t command_line_max; /* without the terminator */
    uint16_t protocol;         /* major << 8 | minor */
};

/* Checks the file: a bzImage, protocol 2.12 or later, with a relocatable 64-bit kernel, whole.
 * `name` is the path as the user gave it, for the refusal. Pure. */
bool linux_probe(const void *file, uint64_t size, const char *name, struct linux_image *image,
                 struct refusal *r);

/* Bytes that struct boot_info's guest_setup must have: boot_params, command line, first page
 * tables, GDT, ACPI copies, and e820 entries for a UEFI map of `map_descriptors` at most. */
uint64_t linux_setup_size(const struct options *o, uint64_t rsdp, uint64_t map_descriptors);

/* The processor's state at the kernel's 64-bit entry, besides CR0.PG, CR4.PAE and EFER.LMA set,
 * interrupts off, and flat segments of the descriptors in the GDT. Addresses are physical. */
struct guest_entry {
    uint64_t rip;
    uint64_t rsi; /* boot_params */
    uint64_t rsp;
    uint64_t cr3;
    uint64_t gdt_base;
    uint16_t gdt_limit;
    uint16_t cs;
    uint16_t ds; /* also ES, SS, FS, GS */
};
#define LINUX_BOOT_CS 0x10
#define LINUX_BOOT_DS 0x18

/* Puts the kernel into guest_kernel and all that it is told into guest_setup, edits the ACPI tables
 * so that they name `processors`, and says how to enter it. Runs after boot services ended, on page
 * tables that map all of that memory to itself. Logs what the guest gets. False: *r says what went
 * wrong. */
bool linux_load(const struct boot_info *bi, const struct guest_processors *processors,
                struct guest_entry *entry, struct refusal *r);
