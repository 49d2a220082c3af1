/* SPDX-License-Identifier: BSD-2-Clause
 *
 * When a run ends by itself, or its reset button is pressed (knob reset_button): after a number of
 * ticks, or a number of ticks after a text on COM1. A tick is an instruction, of each processor
 * where there are several, and passes in halted ones as well: how busy the host is makes no
 * difference. In a server's child what would have come before it was forked ends it with one line.
 */
#pragma once

#include <cstdint>

/* With what the knobs say: reads TB_LIMIT (ticks from power-on), TB_UNTIL (a text) and
 * TB_UNTIL_TICKS (after it) from the environment; what is not there does not end the run. The
 * machine's clock must be there. */
void limits_start();

/* COM1 has sent this byte at that tick, now or before the run was forked. */
void limits_serial(unsigned char byte, uint64_t tick);
