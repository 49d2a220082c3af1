/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The last word: what the guest's run cost in exits, and the machine's end as the guest asked.
 */
#pragma once

#include <stdint.h>

struct acpi_facts;
struct cpu;

/* Logs the table of exits by reason, with cycles where stats=cycles counted them. */
void report_exits(const struct cpu *cpu);

/* Logs the guest's registers as they were at the exit. */
void report_guest(const struct cpu *cpu);

/* The name of a basic exit reason. */
const char *exit_reason_name(uint32_t reason);

/* The same for every processor. */
void report_processors(void);

/* Stops the other processors, reports, and resets the machine. */
_Noreturn void machine_end(struct cpu *cpu);

/* Resets the machine as its FADT says, else by the keyboard controller, else by a triple fault.
 * Outside VMX operation. */
_Noreturn void machine_reset(const struct acpi_facts *acpi);
