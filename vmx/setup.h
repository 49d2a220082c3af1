/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Filling a processor's VMCS.
 */
#pragma once

#include "capability.h"
#include "descriptors.h"

struct cpu;
struct guest_entry;

/* Writes every field of the current VMCS that PMUvisor uses: controls, host state, and the guest
 * at the entry that `guest` describes. */
void vmcs_setup(struct cpu *cpu, const struct vmx_capability *capability,
                const struct vmx_controls *controls, const struct descriptor_tables *tables,
                const struct guest_entry *guest);
