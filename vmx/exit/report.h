/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reports what the guest did: exits by reason, registers, and where each processor was. Ends the
 * machine when the guest asks for it.
 */
#pragma once

#include "vmx/cpu.h"

/* Logs the table of exits by reason, with cycles if stats=cycles counted them. */
void report_exits(const struct cpu *cpu);

/* Logs the guest's registers as they were at the exit. */
void report_guest(const struct cpu *cpu);

/* Returns the name of a basic exit reason. */
const char *exit_reason_name(uint32_t reason);

/* Logs the table of exits of every processor. */
void report_all_exits(void);

/* Logs where each other processor was when processors_stop() stopped it. */
void report_stop_locations(const struct cpu *self);

/* Stops the other processors, reports, and resets the machine. */
_Noreturn void stop_and_reset_machine(struct cpu *cpu);

/* Logs the details that follow the line of a root-mode fault: where the other processors were, and
 * this processor's exits. */
void report_fault(const struct cpu *cpu);
