/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Mitigations against speculative execution at exits and entries.
 */
#pragma once

#include "vmx/cpu.h"

/* Returns the mitigations that a processor needs and offers, as MITIGATION bits of hypercall.h.
 * `leaf_7` is the processor's CPUID.(7, 0), and `capabilities` its IA32_ARCH_CAPABILITIES. Pure. */
uint32_t mitigations_needed(struct cpuid_result leaf_7, uint64_t capabilities);
/* Sets cpu->mitigations for this processor, or leaves 0 with mitigations=off. Call it before the
 * VMCS is set up. */
void mitigations_setup(struct cpu *cpu);
void mitigations_print(const struct cpu *cpu);
