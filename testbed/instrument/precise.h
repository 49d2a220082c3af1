/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Joins PEBS and BTS with Bochs' processor: when a record is due it is made of the processor's
 * registers and stored by linear address, with the page tables in use, as the supervisor. An
 * access that faults leaves by Bochs' longjmp, as the fault of an instruction does. SDM Vol. 3,
 * "BTS and DS Save Area".
 */
#pragma once

#include "processor.h"

class bxInstruction_c;

/* What the instruction at hand did, for its record: a taken branch, a load, a store. */
void precise_branch(Processor &p, uint64_t from);
void precise_load(Processor &p, uint64_t linear, CacheOutcome outcome);
void precise_store(Processor &p, uint64_t linear, CacheOutcome outcome);

/* `i` has retired: stores the branches and the records that are due. */
void precise_retired(Processor &p, bxInstruction_c *i);
/* Stores the branch of an event's delivery, before its handler's first instruction. */
void precise_delivered(Processor &p);
/* The instruction at hand does not retire: it faults or exits. */
void precise_forget(Processor &p);

/* Instructions until a record is to be written that the knob `pebs_late` holds back. */
uint64_t precise_budget(const Processor &p);
