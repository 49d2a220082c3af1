/* SPDX-License-Identifier: BSD-2-Clause
 *
 * VT-d keeps devices out of the memory that is hidden from the guest, whatever the guest tells the
 * devices. (VT-d specification, "DMA Remapping".)
 */
#pragma once

#include "lib/refusal.h"
#include "mm/dmar.h"
#include "mm/mm.h"

/* Tells whether the guest can do without interrupt remapping, which needs DMAR. A guest that finds
 * x2APIC mode on and no DMAR turns the mode off. But if firmware has turned interrupt remapping on,
 * vtd_find_units() treats X2APIC_ON as X2APIC_FORCED. */
enum x2apic_use {
    X2APIC_OFF,
    X2APIC_ON,    /* x2APIC mode is on, but can be turned off */
    X2APIC_FORCED /* x2APIC mode is locked on, or some APIC IDs need this mode */
};

struct vtd_plan {
    struct dmar dmar;   /* the caller hides units[] from the guest; empty: DMA is not contained */
    uint64_t cap;       /* the bits of CAP that all units have in common */
    uint64_t ecap;      /* the bits of ECAP that all units have in common */
    struct refusal why; /* if there are no units, the reason why DMA is not contained */
};

/* Reads DMAR and the units' capabilities. The table and the units' registers have to be mapped.
 * Changes nothing. `top` is the end of the memory that devices must reach. Returns false if DMA
 * cannot be contained. */
bool vtd_find_units(uint64_t rsdp, enum x2apic_use x2apic, uint64_t top, struct vtd_plan *plan);

/* Returns the number of pages that vtd_start() takes from the pool. The EPT is built from `q`. */
uint64_t vtd_pages_needed(const struct vtd_plan *plan, const struct ept_request *q);

/* Makes all units translate by the EPT itself. If a unit lacks a page size that the EPT uses, all
 * units translate by a separate map that hides the same memory. Takes over units that firmware has
 * turned on. Neither map may change afterwards. Logs whether DMA is contained now. If DMA is not
 * contained, logs the reason, for example a command that a unit did not complete. */
bool vtd_start(const struct vtd_plan *plan, const struct ept_request *q, uint64_t ept_root);
