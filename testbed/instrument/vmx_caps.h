/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which VMX controls the processor offers: Bochs' model, less what the real processor lacks, less
 * what the knobs hide. Changes data of Bochs' processor object. SDM Vol. 3, Appendix A.
 */
#pragma once

#include <cstdint>

/* The guest's IA32_LBR_CTL in the VMCS. Bochs has names for the controls, and no field. SDM Vol. 3,
 * Appendix B, "64-Bit Guest-State Fields". */
constexpr uint32_t VMX_GUEST_IA32_LBR_CTL = 0x2816;

/* To be called for each processor after Bochs has made it, and again where a run is forked. */
void vmx_caps_apply(unsigned cpu);

/* Bochs has reset the processor: sets IA32_FEATURE_CONTROL as the knob says. */
void vmx_caps_reset(unsigned cpu);

/* The processor offers the activity state wait-for-SIPI (IA32_VMX_MISC bit 8). */
bool vmx_caps_wait_for_sipi();
/* Intel PT can be used in VMX operation (bit 14). */
bool vmx_caps_pt_in_vmx();
/* What it shows of Bochs' IA32_VMX_MISC. */
uint64_t vmx_caps_misc(uint64_t misc);
