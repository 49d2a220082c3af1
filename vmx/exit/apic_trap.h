/* SPDX-License-Identifier: BSD-2-Clause
 *
 * apic=trap: every access of the guest to its local APIC exits and is done for it. Thesis, section
 * 3.2.2, "PMI Masking".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpu;

/* At the start, on any page tables. The EPT has a hole where the APIC's page is. False: the page
 * pool is used up. */
bool apic_trap_setup(struct cpu *cpu);

/* An EPT violation at guest-physical `address` inside that page: the access is done on the hardware
 * and the guest goes on after it, or gets #GP where the instruction is not one that PMUvisor knows
 * (one line in the log says where). False: no data access of an instruction, nothing was done. */
bool apic_trap_access(struct cpu *cpu, uint64_t address, uint64_t qualification);
