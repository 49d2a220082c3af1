/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The changes that the guest's ACPI tables need.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "boot_info.h"

/* Returns the number of bytes that guest_acpi_edit() needs for its copies, or 0 if it copies
 * nothing. */
uint64_t guest_acpi_size(uint64_t rsdp);

struct guest_acpi_result {
    /* The MADT copy is in place. It enables at least one processor of `kept`, and no others. */
    bool processors_limited;
    bool reset_watched; /* the FADT copy is in place and names the doorbell */
};

/* Copies MADT and FADT into `area` and edits the copies. Changes XSDT and RSDT in place, so that
 * they point to the copies. Disables every processor that is not among `kept`. The reset register,
 * if there is one, becomes a byte of memory at `doorbell`. In the DSDT and the SSDTs, hides all
 * sleep states except S5, in place. Call this function only after boot services have ended. */
struct guest_acpi_result guest_acpi_edit(uint64_t rsdp, const struct guest_processors *kept,
                                         uint64_t doorbell, void *area, uint64_t area_size);

/* Removes the tables with this signature from XSDT and RSDT, in place. Returns false if the writes
 * to a list had no effect. Call this function only after boot services have ended. */
bool guest_acpi_hide(uint64_t rsdp, const char *signature);
