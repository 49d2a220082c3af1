/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the ACPI table DMAR says: where the VT-d units' registers are, and which memory is used by
 * devices that firmware set up. (VT-d specification, "DMA Remapping Reporting Structure".)
 */
#pragma once

#include "boot_info.h"

#define DMAR_UNITS_MAX 64
#define DMAR_RESERVED_MAX 64

struct dmar {
    uint32_t unit_count;                      /* entries of units[] */
    uint32_t reserved_count;                  /* entries of reserved[] */
    struct range units[DMAR_UNITS_MAX];       /* register pages */
    struct range reserved[DMAR_RESERVED_MAX]; /* memory that devices go on using (RMRR) */
};

/* Reads a DMAR table whose header and checksum are right. False: the table is damaged, has no unit,
 * or has more in it than *d has room for. *d must not be used then. */
bool dmar_read(const void *table, struct dmar *d);
