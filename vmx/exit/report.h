/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the guest's run cost in exits, and the machine's end as the guest asked for it.
 */
#pragma once

#include "vmx/cpu.h"

/* Logs the table of exits by reason, with cycles where stats=cycles counted them. */
void report_exits(const struct cpu *cpu);

/* Logs the guest's registers as they were at the exit. */
void report_guest(const struct cpu *cpu);

/* The name of a basic exit reason. */
const char *exit_reason_name(uint32_t reason);

/* The table of every processor. */
void report_processors(void);

/* Logs where each processor but this one was when processors_stop() stopped it. */
void report_places(const struct cpu *self);

/* Stops the other processors, reports, and resets the machine. */
_Noreturn void machine_end(struct cpu *cpu);

/* What a fault in root mode adds to its line: where the others were, and this one's exits. */
void report_fault(const struct cpu *cpu);
