/* SPDX-License-Identifier: BSD-2-Clause
 *
 * VM entry and VM exit as far as Bochs leaves them out: GLOBAL_CTRL and DEBUGCTL move between the
 * processor and the VMCS, and the ledger hears of both. SDM Vol. 3, "VM Entries" and "VM Exits".
 */
#pragma once

#include <cstdint>

#include "processor.h"

/* VMLAUNCH or VMRESUME begins: makes Bochs refuse what it does not check itself. */
void vmx_entry_begins(Processor &p);

/* VMLAUNCH or VMRESUME has returned to the next instruction, or the guest has been entered. */
void vmx_entry_refused(Processor &p);

/* A VM exit begins; the guest's state is still in the processor. */
void vmx_exit_begins(Processor &p, uint32_t reason);

/* Bochs has loaded the guest's state (VM entry) or the host's (VM exit). */
void vmx_state_loaded(Processor &p);
