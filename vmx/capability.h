/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The VMX capabilities of this processor, and the VMX controls chosen from them.
 * SDM Vol. 3, Appendix "VMX Capability Reporting Facility".
 */
#pragma once

#include "options.h"

enum control_set { SET_PIN, SET_PRIMARY, SET_SECONDARY, SET_EXIT, SET_ENTRY, SET_COUNT };

struct vmx_capability {
    uint64_t basic;              /* IA32_VMX_BASIC */
    uint64_t misc;               /* IA32_VMX_MISC; VMX_MISC_PT is cleared if PT cannot be used */
    uint64_t ept_vpid;           /* IA32_VMX_EPT_VPID_CAP, or 0 */
    uint64_t allowed[SET_COUNT]; /* low half: bits that must be 1; high half: bits that may be 1 */
    uint64_t cr0_fixed0;         /* IA32_VMX_CR0_FIXED0: bits that must be 1 in CR0 */
    uint64_t cr0_fixed1;         /* IA32_VMX_CR0_FIXED1: bits that may be 1 in CR0 */
    uint64_t cr4_fixed0;         /* IA32_VMX_CR4_FIXED0: bits that must be 1 in CR4 */
    uint32_t physical_address_bits; /* without the bits of memory encryption keys */
    uint32_t pmu_version;           /* CPUID.0AH:EAX[7:0] */
    bool execute_disable;           /* CPUID.80000001H:EDX[20] */
    bool global_ctrl_erratum;       /* the VMCS controls load a wrong IA32_PERF_GLOBAL_CTRL */
};

struct vmx_controls {
    uint32_t value[SET_COUNT];
};

/* Returns whether `bit` of `set` may be 1. */
bool vmx_allows_control(const struct vmx_capability *c, enum control_set set, uint32_t bit);
/* Returns whether `bit` of `set`, a control that PMUvisor needs, may be 1. False: *r says that the
 * control `name` is missing. */
bool vmx_require_control(const struct vmx_capability *c, enum control_set set, uint32_t bit,
                         const char *name, struct refusal *r);

/* Returns (want OR must-be-1) AND may-be-1. No other code computes this. */
uint32_t vmx_adjust_controls(uint64_t allowed, uint32_t want);

/* Returns whether the VMCS controls load a wrong IA32_PERF_GLOBAL_CTRL on a processor with this
 * CPUID.1:EAX. Nehalem and Westmere have this erratum: AAK155, AAP115, AAT100, BC86 and BA97 in
 * Intel's specification updates. */
bool has_global_ctrl_erratum(uint32_t signature);

/* Returns whether this processor has VMX and firmware allows VMX. False: *r says why not. */
bool vmx_is_available(struct refusal *r);

/* Returns IA32_ARCH_CAPABILITIES, or 0 on a processor without it. */
uint64_t read_arch_capabilities(void);

/* Reads the capability MSRs. Needs CPUID.1:ECX.VMX = 1. */
void vmx_capability_read(struct vmx_capability *c);

/* Chooses the controls for these options. False: *r names the first control or capability that is
 * missing, or the first control that cannot be turned off. Pure: everything about the processor
 * comes from *c. */
bool vmx_controls_choose(const struct vmx_capability *c, const struct options *o,
                         struct vmx_controls *out, struct refusal *r);

/* Logs every needed and every optional control, and whether the processor has it. */
void vmx_capability_print(const struct vmx_capability *c, const struct options *o);
