/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The changes that the guest's ACPI tables need.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "boot_info.h"

/* Returns the bytes that guest_acpi_edit() needs for its copies; 0: there is nothing to copy. */
uint64_t guest_acpi_size(uint64_t rsdp);

struct guest_acpi_result {
    bool processors_limited; /* the MADT copy is in place, with at least one of `kept`, no other */
    bool reset_watched;      /* the FADT copy is in place and names the doorbell */
};

/* Copies MADT and FADT into `area`, edits the copies, and points XSDT and RSDT at them, in place.
 * Every processor that is not among `kept` is disabled. The reset register, if there is one,
 * becomes a byte of memory at `doorbell`. Only past the point of no return. */
struct guest_acpi_result guest_acpi_edit(uint64_t rsdp, const struct guest_processors *kept,
                                         uint64_t doorbell, void *area, uint64_t area_size);

/* Removes the tables with this signature from XSDT and RSDT, in place. Returns false if a list did
 * not take the change. Only past the point of no return. */
bool guest_acpi_hide(uint64_t rsdp, const char *signature);
