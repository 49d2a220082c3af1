/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The facts that boot/ reads from the ACPI tables.
 */
#pragma once

#include "lib/acpi.h"

/* Returns the SPCR, which describes the serial line of firmware's console, or NULL if there is no
 * such line. *port gets the line's I/O port, or 0 if the line is not a 16550 at an I/O port.
 * *divisor gets the divisor of the line's rate, or 0 to keep the rate that firmware set. */
const struct acpi_spcr *acpi_find_spcr(uint64_t rsdp, uint16_t *port, uint16_t *divisor);
/* Logs a line for each table that the hypervisor uses and whose length or checksum is wrong. */
void acpi_warn_of_damage(uint64_t rsdp);
/* Fills *facts from the ACPI tables. `rsdp` is the RSDP's address, or 0 if there is no RSDP. */
void acpi_facts_read(uint64_t rsdp, struct acpi_facts *facts);
