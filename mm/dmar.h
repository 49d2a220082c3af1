/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The contents of the ACPI table DMAR: the registers of the VT-d units, and the memory that devices
 * go on using because firmware has set them up so. (VT-d specification, "DMA Remapping Reporting
 * Structure".)
 */
#pragma once

#include "boot_info.h"

#define DMAR_UNITS_MAX 64
#define DMAR_RESERVED_MAX 64

struct dmar {
    uint32_t unit_count;                      /* entries of units[] */
    uint32_t reserved_count;                  /* entries of reserved[] */
    struct range units[DMAR_UNITS_MAX];       /* register pages */
    struct range reserved[DMAR_RESERVED_MAX]; /* memory that devices keep using (RMRR) */
};

/* Reads a DMAR table that acpi_find_table() has found. Returns false if the table is damaged, has
 * no unit, or has more entries than *d has room for. After false, *d must not be used. */
bool dmar_read(const void *table, struct dmar *d);
