/* SPDX-License-Identifier: BSD-2-Clause
 *
 * VT-d keeps devices, whatever the guest tells them, out of the memory that is hidden from the
 * guest. (VT-d specification, "DMA Remapping".)
 */
#pragma once

#include "lib/refusal.h"
#include "mm/dmar.h"
#include "mm/mm.h"

/* Whether the guest can do without interrupt remapping, which it cannot have without DMAR. */
enum x2apic_use {
    X2APIC_OFF,
    X2APIC_ON,    /* a guest without DMAR leaves x2APIC mode, unless interrupts are remapped now */
    X2APIC_FORCED /* locked on, or there are APIC IDs that only this mode can address */
};

struct vtd_plan {
    struct dmar dmar;   /* units[] are to be hidden from the guest; none: DMA cannot be contained */
    uint64_t cap, ecap; /* what all units have in common of CAP and ECAP */
    struct refusal why; /* not, when there are no units */
};

/* Reads DMAR and the units' capabilities, which have to be mapped, and changes nothing. `top` is
 * the end of the memory that devices must reach. False: DMA cannot be contained. */
bool vtd_find(uint64_t rsdp, enum x2apic_use x2apic, uint64_t top, struct vtd_plan *plan);

/* Pages that vtd_start() takes from the pool. `q` is what the EPT is built from. */
uint64_t vtd_pages_needed(const struct vtd_plan *plan, const struct ept_request *q);

/* Makes all units translate by the EPT itself, or, where one lacks a page size that the EPT uses,
 * by a map of its own that hides the same. Takes over units that firmware has turned on. Neither
 * map may change afterwards. Logs whether DMA is contained now, and why not: that a unit did not do
 * as it was told is one of the reasons. */
bool vtd_start(const struct vtd_plan *plan, const struct ept_request *q, uint64_t ept_root);
