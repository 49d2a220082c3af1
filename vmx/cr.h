/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which bits of CR4 the guest may not have, and which are watched.
 * SDM Vol. 3, "Control Registers"; "Guest/Host Masks and Read Shadows for CR0 and CR4".
 */
#pragma once

#include "x86.h"

struct cpu;

/* Bits that stay 0 for the guest, because CPUID hides the feature on every processor; with CR4.CET,
 * where CPUID hides CET, they are cpu->cr4_refused. */
#define CR4_HIDDEN (CR4_VMXE | CR4_SMXE | CR4_KL | CR4_UINTR | CR4_FRED)
/* Bits that CPUID reports back: an exit when they change spares a VMREAD at every CPUID. */
#define CR4_TRACKED (CR4_OSXSAVE | CR4_PKE)

/* cpuid.c: takes over cpu->guest_cr4_tracked. */
void cpuid_follow_cr4(struct cpu *cpu);
