/* SPDX-License-Identifier: BSD-2-Clause
 *
 * apic=trap: every access of the guest to its local APIC exits, and root mode does the access for
 * the guest. Thesis, section 3.2.2, "PMI Masking".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpu;

/* Call it at the start, on any page tables. The EPT does not map the APIC's page. Returns false if
 * the page pool is used up. */
bool apic_trap_setup(struct cpu *cpu);

/* Handles an EPT violation at guest-physical `address` inside the APIC's page. Does the access on
 * the hardware and moves the guest past the instruction. If PMUvisor does not know the instruction,
 * the guest gets #GP, and one line in the log gives the RIP. Returns false, and does nothing,
 * unless the access is an aligned data access by an instruction. */
bool apic_trap_access(struct cpu *cpu, uint64_t address, uint64_t qualification);
