/* SPDX-License-Identifier: BSD-2-Clause
 *
 * INIT and SIPI as the SDM has them, where Bochs differs: an INIT in VMX root operation is held
 * until the next VM entry, one in the wait-for-SIPI state is dropped, a SIPI exit leaves NMIs as
 * the entry set them, and an INIT leaves the local APIC in x2APIC mode. SDM Vol. 3, "Other Causes
 * of VM Exits", "Restrictions on VMX Operation", "x2APIC State Transitions".
 */
#ifndef TB_INIT_H
#define TB_INIT_H

#include "processor.h"

class BX_CPU_C;

/* A store to the local APIC's registers, at this offset, is about to happen. */
void init_apic_write_seen(Processor &p, uint32_t offset);
/* The instruction that wrote an interrupt command is complete. */
void init_after_command(Processor &p);
/* WRMSR is about to write this. */
void init_wrmsr_seen(Processor &p, uint32_t index, uint64_t value);
/* Guest state is loaded, and the guest is about to run. */
void init_on_entry(Processor &p);
/* A VM exit begins and has saved nothing yet. */
void init_on_exit(Processor &p, unsigned reason);
/* Bochs has reset the processor: by INIT, or all of it. */
void init_done(Processor &p, bool hardware);
/* The processor to which this one sent an INIT has woken up for it (knob mwait_wake). */
void init_wake(Processor &sender);
/* The guest's activity state is wait-for-SIPI, and a knob hides that one. */
bool init_state_refused(BX_CPU_C *cpu);

#endif
