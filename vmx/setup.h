/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Filling a processor's VMCS.
 */
#pragma once

#include "capability.h"
#include "descriptors.h"

struct guest_entry;

/* Writes every field of the current VMCS that PMUvisor uses: controls, host state, and the guest
 * at the entry that `guest` describes, or, with NULL, as guest_init_state() leaves it. */
void vmcs_setup(struct cpu *cpu, const struct vmx_capability *capability,
                const struct vmx_controls *controls, const struct descriptor_tables *tables,
                const struct guest_entry *guest);

/* init.c: the guest's processor as an INIT leaves it. */
void guest_init_state(struct cpu *cpu);
/* Then it waits for a SIPI: from the next entry on, or right here where VMX has no such state. */
void await_sipi(struct cpu *cpu);
/* The guest is about to write this to its ICR (apic=trap); `destination` ffffffffH is all. True: an
 * INIT or SIPI for processors that wait in root mode, which have it; it is not to be sent. Logical
 * destinations are not looked at. */
bool guest_sends_ipi(uint32_t command, uint32_t destination);
