/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A guest's processor between INIT and SIPI.
 */
#pragma once

#include "vmx/cpu.h"

/* The guest's processor as an INIT leaves it. */
void guest_init_state(struct cpu *cpu);
/* Then it waits for a SIPI: from the next entry on, or right here where VMX has no such state. */
void await_sipi(struct cpu *cpu);
/* The guest is about to write this to its ICR (apic=trap), which is one only where the local APIC
 * is in `mode`, APIC_BASE_EN, or with APIC_BASE_EXTD; `destination` ffffffffH is all. True: an INIT
 * or SIPI for processors that wait in root mode, which have it; it is not to be sent. Logical
 * destinations are not looked at. */
bool guest_sends_ipi(uint64_t mode, uint32_t command, uint32_t destination);
