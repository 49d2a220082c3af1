/* SPDX-License-Identifier: BSD-2-Clause
 *
 * trace_dump=: prints the rings' records on the console at the end of the run, so that nothing in
 * the guest has to read them.
 */
#pragma once

#include "vmx/cpu.h"

extern uint32_t dump_records; /* value of trace_dump=: the most records per ring; 0: none */

/* Adds the dump's row to the table, under the rows of a level. Runs on the processor itself, before
 * its ring is set up. */
void trace_add_dump_row(struct cpu *cpu);
