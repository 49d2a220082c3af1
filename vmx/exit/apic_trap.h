/* SPDX-License-Identifier: BSD-2-Clause
 *
 * apic=trap: each of the guest's accesses to its local APIC exits, and root mode performs the
 * access for the guest. Thesis, section 3.2.2, "PMI Masking".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpu;

/* Call it at the start, on any page tables. The EPT does not map the APIC's page. */
void apic_trap_setup(struct cpu *cpu);

/* Handles an EPT violation at guest-physical `address` inside the APIC's page. Performs the access
 * on the hardware and moves the guest past the instruction. If PMUvisor does not know the
 * instruction, the guest gets #GP, and one line in the log gives the RIP. If the access is not an
 * aligned data access by an instruction, does nothing and returns false. */
bool apic_trap_access(struct cpu *cpu, uint64_t address, uint64_t qualification);
