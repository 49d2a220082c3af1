/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A kernel in the memory of a virtual machine, with all that the boot protocol wants around it.
 * (Linux, Documentation/arch/x86/boot.rst, "32-bit Boot Protocol".)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/refusal.h"

/* The processor's state at the 32-bit entry, beside protected mode without paging, flat segments
 * of the descriptors in the GDT, and interrupts off. */
struct image_entry {
    uint32_t eip;
    uint32_t esi; /* boot_params */
    uint32_t gdt_base;
    uint16_t gdt_limit;
};

/* A file in memory; `name` is for refusals. */
struct image_file {
    const void *data;
    uint64_t size;
    const char *name;
};

/* Puts the kernel, boot_params, command line and GDT into the memory, which begins at
 * guest-physical address 0 and is all zero; an initrd of any size goes to its end. Pure. */
bool image_place(uint8_t *memory, uint64_t memory_size, const struct image_file *kernel,
                 const struct image_file *initrd, const char *command_line,
                 struct image_entry *entry, struct refusal *r);
