/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest's processors between INIT and SIPI.
 */
#pragma once

#include "vmx/cpu.h"

/* Puts the guest's processor into its state after an INIT. */
void guest_init_state(struct cpu *cpu);
/* Then makes it wait for a SIPI: from the next entry on, or inside this call if VMX has no
 * wait-for-SIPI state. */
void await_sipi(struct cpu *cpu);
/* The guest is about to write `command` to its ICR (apic=trap). The register is the ICR only if the
 * local APIC is in `mode`: APIC_BASE_EN, or APIC_BASE_EN with APIC_BASE_EXTD. A `destination` of
 * FFFFFFFFH means all processors. Returns true if the command was an INIT or SIPI for processors
 * that wait in root mode. They have it, and it must not be sent. Ignores logical destinations. */
bool guest_sends_ipi(uint64_t mode, uint32_t command, uint32_t destination);
