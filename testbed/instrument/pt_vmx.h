/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Intel PT over VM entries and VM exits: the checks that Bochs does not make, IA32_RTIT_CTL and its
 * field, and the packets of both. SDM Vol. 3, "VM Entries", "VM Exits"; "Intel Processor Trace",
 * section 5.
 */
#pragma once

#include "bochs.h"
#include "cpu.h"
#include "processor.h"

/* Of a VMCS whose entry begins: the controls or the guest's state are bad for PT. */
bool pt_controls_bad(BX_CPU_C *cpu);
bool pt_guest_state_bad(BX_CPU_C *cpu);

/* The guest's state is loaded; then the MSRs are as well, and this is non-root operation. */
void pt_guest_state_loaded(Processor &p);
void pt_entered(Processor &p);

/* The host's state is loaded. `failed`: it was an entry that failed. */
void pt_host_state_loaded(Processor &p, bool failed);
