/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The knob mwait_wake: a guest's processor that sleeps in MWAIT takes its time to wake up for an
 * INIT, as one in a deep C-state does.
 */
#pragma once

/* An INIT comes to processor `cpu`. True: it is delivered later, by itself. */
bool mwait_wake_delays(unsigned cpu);
