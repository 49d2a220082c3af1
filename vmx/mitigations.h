/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What is done at exits and entries against speculative execution.
 */
#pragma once

#include "vmx/cpu.h"

/* What a processor with these capabilities needs and offers: MITIGATION bits of
 * hypercall.h. `leaf_7` is its CPUID.(7, 0). Pure. */
uint32_t mitigations_needed(struct cpuid_result leaf_7, uint64_t capabilities);
/* This processor's, as the options say; before its VMCS is set up. */
void mitigations_setup(struct cpu *cpu);
void mitigations_print(const struct cpu *cpu);
