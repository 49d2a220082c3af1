/* SPDX-License-Identifier: BSD-2-Clause
 *
 * trace_dump=: what the rings have at the end of the run goes to the console, so that nothing in
 * the guest has to read it.
 */
#pragma once

#include "vmx/cpu.h"

extern uint32_t dump_records; /* the option's: of each ring at most; 0: none */

/* On the processor itself, before its ring is made: its row, which a level's rows lie over. */
void trace_dump_row(struct cpu *cpu);
