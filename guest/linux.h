/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Linux as the guest: checks that a file is a kernel that can be started, tells what memory the
 * kernel needs, and loads the kernel. (Linux, Documentation/arch/x86/boot.rst.)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "boot_info.h"
#include "guest/acpi_edit.h"
#include "lib/refusal.h"

/* Checks that the file is a complete bzImage of protocol 2.12 or later with a relocatable 64-bit
 * kernel. `name` is the path as the user gave it, for the refusal. Pure. */
bool linux_probe(const void *file, uint64_t size, const char *name, struct linux_image *image,
                 struct refusal *r);

/* Returns the number of bytes that struct boot_info's guest_setup must have, for boot_params,
 * command line, first page tables, GDT, ACPI copies, and the e820 entries of a UEFI map of at most
 * `map_descriptors` descriptors. */
uint64_t linux_setup_size(uint64_t rsdp, uint64_t map_descriptors);

/* The processor's state at the kernel's 64-bit entry. In addition, CR0.PG, CR4.PAE and EFER.LMA are
 * set, interrupts are off, and segments are flat, as in the GDT's descriptors. Addresses are
 * physical. */
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

/* Puts the kernel into guest_kernel, and everything that the kernel reads at its start into
 * guest_setup. Edits the ACPI tables so that they name `processors`, and fills *entry. Call this
 * function after boot services have ended. The current page tables must identity-map all memory
 * that it touches. Logs what the guest gets. On failure, returns false and stores the reason in
 * *r. */
bool linux_load(const struct boot_info *bi, const struct guest_processors *processors,
                struct guest_entry *entry, struct refusal *r);
