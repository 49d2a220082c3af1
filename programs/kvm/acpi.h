/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The ACPI table that says which interrupt controllers the virtual machine has. Without it Linux
 * leaves the I/O APIC and x2APIC mode alone. There is no other table, so that Linux then turns ACPI
 * off. (ACPI Specification 6.5, "Multiple APIC Description Table (MADT)".)
 */
#pragma once

#include <stdint.h>

/* Of the RSDP, where operating systems look for it: the BIOS's area. */
#define ACPI_ADDRESS 0xf0000u

#define ACPI_CPUS_MAX 16u

/* Writes the tables into the memory, which begins at guest-physical address 0: so many processors,
 * whose local APICs' IDs count from 0, and an I/O APIC. Pure. */
void acpi_place(uint8_t *memory, unsigned cpus);
