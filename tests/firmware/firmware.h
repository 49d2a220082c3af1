/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the tests that are EFI applications of their own ask of firmware, and how they end.
 */
#pragma once

#include <efi.h>

#include <stdint.h>

/* Memory below 4 GiB of this EFI type, at least `bytes` long. NULL: there is none. UEFI, section
 * "EFI_BOOT_SERVICES.AllocatePages()". */
void *firmware_allocate(EFI_SYSTEM_TABLE *system, EFI_MEMORY_TYPE type, uint64_t bytes);
/* The address of ACPI's root pointer, 0 where firmware names none. */
uint64_t firmware_rsdp(const EFI_SYSTEM_TABLE *system);
/* Ends QEMU, whose isa-debug-exit takes the word: 0 where the test went well. */
__attribute__((noreturn)) void firmware_end(uint32_t word);
