/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The facts that boot/ reads from the ACPI tables.
 */
#pragma once

#include "lib/acpi.h"

struct serial_line {
    uint16_t port;                  /* I/O port of a 16550; 0: none */
    uint16_t divisor;               /* of 115200; 0 keeps the rate that firmware set */
    const struct acpi_spcr *unused; /* names a line that is not a 16550 at an I/O port */
};

/* Returns the serial line of firmware's console, as ACPI's SPCR describes it. Returns COM1 if no
 * SPCR names a line, or if the line is not a 16550 at an I/O port. */
struct serial_line acpi_find_serial_line(uint64_t rsdp);
/* Logs a line for each table that the hypervisor uses and whose length or checksum is wrong. */
void acpi_warn_of_damage(uint64_t rsdp);
/* Fills *facts from the ACPI tables. `rsdp` is the RSDP's address, or 0 if there is no RSDP. */
void acpi_facts_read(uint64_t rsdp, struct acpi_facts *facts);
