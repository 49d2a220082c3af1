/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What Bochs' processors do to memory, for the memory log. All do nothing while the marker has not
 * turned it on.
 */
#pragma once

#include "processor.h"

/* Lists accesses that are of MEMORY_READ or MEMORY_WRITE in `rw`, of all processors; 0: none.
 * Nothing without the knob. */
void memory_log_turn(uint32_t rw);
bool memory_log_is_on();

/* An access, before it is made. `rw` is Bochs'. */
void memory_access(Processor &p, uint64_t lin, uint64_t phy, uint32_t len, unsigned rw);
/* A page walk has set a bit of the 8 bytes at phy. It stays set, whatever becomes of the access. */
void memory_walk(Processor &p, uint64_t lin, uint64_t phy);
/* The instruction, an iteration of it, or the delivery of an event is complete. */
void memory_complete(Processor &p);
/* The instruction or delivery at hand is undone, and an event is delivered. */
void memory_delivery(Processor &p);
/* A VM exit undoes what is at hand. */
void memory_exit(Processor &p, uint32_t reason);
