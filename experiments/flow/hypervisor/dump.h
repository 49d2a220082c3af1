/* SPDX-License-Identifier: BSD-2-Clause
 *
 * trace_dump=: prints the rings' records on the console at the end of the run, so that nothing in
 * the guest has to read them.
 */
#pragma once

#include "vmx/cpu.h"

extern uint32_t dump_records; /* value of trace_dump=: the most records per ring; 0: none */

/* Puts the dump's row into the table of handlers. Call this function on the processor itself,
 * before ring_setup(), which copies the table. So the rows of a trace level call the dump's row. */
void trace_add_dump_row(struct cpu *cpu);
