/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The issue slots of a cycle, and whose they are: the events that top-down analysis adds up. A
 * definition, not a pipeline (README.md, "Slots"): a cycle has four. One is its instruction's,
 * which retires. The other three are bad speculation's where the instruction is a mispredicted
 * branch, the front end's where it is another branch that is taken, and the back end's in all other
 * cycles. So the four shares add up to all slots. Knows no Bochs.
 */
#pragma once

#include "events.h"

constexpr unsigned SLOTS = 4;

/* UOPS_ISSUED, UOPS_RETIRED and IDQ_UOPS_NOT_DELIVERED of Skylake-X, by their codes: what they are,
 * with the threshold that is left to apply. Another event stays as it is. */
unsigned topdown_select(unsigned event, unsigned umask, unsigned threshold, Selector *selector);

/* EVENT_UOPS_ISSUED, EVENT_FETCH_BUBBLES, and EVENT_REDIRECTS, the cycles with such bubbles. */
uint64_t topdown_count(const EventCounts &events, Event event, unsigned mode);
