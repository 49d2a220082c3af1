/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads this processor's VMX capabilities, and checks that this machine can run PMUvisor: the
 * processor has VMX, firmware allows VMX, the VMX controls fit, and there is a PMU. Changes no
 * state. SDM Vol. 3, "Discovering Support for VMX", "Enabling and Entering VMX Operation".
 */
#include "vmx/capability.h"

#include "console/log.h"
#include "msr.h"
#include "vmx.h"
#include "vmx/hypervisor.h"
#include "vmx/settings.h"
#include "x86.h"

#define PMU_VERSION_NEEDED 2 /* the first version with IA32_PERF_GLOBAL_CTRL */

static uint32_t read_pmu_version(void)
{
    return cpuid(0, 0).eax >= CPUID_LEAF_PMU ? cpuid(CPUID_LEAF_PMU, 0).eax & 0xff : 0;
}

uint64_t read_arch_capabilities(void)
{
    return cpuid_extended_features().edx & CPUID_7_EDX_ARCH_CAPABILITIES
               ? rdmsr(IA32_ARCH_CAPABILITIES)
               : 0;
}

void vmx_capability_read(struct vmx_capability *c)
{
    uint64_t basic = rdmsr(IA32_VMX_BASIC);
    bool true_controls = basic & VMX_BASIC_TRUE_CONTROLS;

    *c = (struct vmx_capability){
        .basic = basic,
        .misc = rdmsr(IA32_VMX_MISC),
        .allowed =
            {
                [SET_PIN] = rdmsr(true_controls ? IA32_VMX_TRUE_PINBASED_CTLS
                                                : IA32_VMX_PINBASED_CTLS),
                [SET_PRIMARY] = rdmsr(true_controls ? IA32_VMX_TRUE_PROCBASED_CTLS
                                                    : IA32_VMX_PROCBASED_CTLS),
                [SET_EXIT] = rdmsr(true_controls ? IA32_VMX_TRUE_EXIT_CTLS : IA32_VMX_EXIT_CTLS),
                [SET_ENTRY] = rdmsr(true_controls ? IA32_VMX_TRUE_ENTRY_CTLS : IA32_VMX_ENTRY_CTLS),
            },
        .cr0_fixed0 = rdmsr(IA32_VMX_CR0_FIXED0),
        .cr0_fixed1 = rdmsr(IA32_VMX_CR0_FIXED1),
        .cr4_fixed0 = rdmsr(IA32_VMX_CR4_FIXED0),
        .physical_address_bits = cpuid(CPUID_LEAF_ADDRESS_SIZES, 0).eax & 0xff,
        .pmu_version = read_pmu_version(),
        .execute_disable = cpuid(CPUID_LEAF_EXTENDED_1, 0).edx & CPUID_EXTENDED_1_EDX_NX,
        .global_ctrl_erratum = has_global_ctrl_erratum(cpuid(1, 0).eax),
    };
    /* The MSRs of these controls exist only if the bits that activate the controls may be 1. */
    if (vmx_allows_control(c, SET_PRIMARY, PRIMARY_SECONDARY_CONTROLS))
        c->allowed[SET_SECONDARY] = rdmsr(IA32_VMX_PROCBASED_CTLS2);
    if (vmx_allows_control(c, SET_SECONDARY, SECONDARY_ENABLE_EPT | SECONDARY_ENABLE_VPID))
        c->ept_vpid = rdmsr(IA32_VMX_EPT_VPID_CAP);
    /* PMUvisor uses only one of the tertiary controls. Without that one, leave them all off. */
    if (vmx_allows_control(c, SET_PRIMARY, PRIMARY_TERTIARY_CONTROLS) &&
        !(rdmsr(IA32_VMX_PROCBASED_CTLS3) & TERTIARY_PEBS_GUEST_PHYSICAL))
        c->allowed[SET_PRIMARY] &= ~((uint64_t)PRIMARY_TERTIARY_CONTROLS << 32);
    /* Hide PT if it can also send output to a trace transport subsystem, because that output would
     * have no guest-physical address. */
    if (!(cpuid_extended_features().ebx & CPUID_7_EBX_PT) ||
        (cpuid(CPUID_LEAF_PT, 0).ecx & CPUID_14_ECX_OUTPUTS) != CPUID_14_ECX_SINGLE_RANGE)
        c->misc &= ~VMX_MISC_PT;
    /* The upper bits that firmware gave to memory encryption keys are not part of an address. With
     * them set, the guest would reach the hypervisor's memory at another address (SDM Vol. 4,
     * "IA32_TME_ACTIVATE"). */
    if (cpuid_extended_features().ecx & CPUID_7_ECX_TME)
        c->physical_address_bits -= rdmsr(IA32_TME_ACTIVATE) >> TME_ACTIVATE_KEYID_BITS_SHIFT &
                                    TME_ACTIVATE_KEYID_BITS;
}

bool vmx_is_available(struct refusal *r)
{
    if (!(cpuid(1, 0).ecx & CPUID_1_ECX_VMX))
        return refuse(
            r, REFUSE_UNSUPPORTED,
            "this processor shows no VMX (CPUID.1:ECX bit 5 is 0, wanted 1): use an Intel "
            "processor with VT-x, or an outer hypervisor with nested virtualization on");

    uint64_t feature_control = rdmsr(IA32_FEATURE_CONTROL);
    if (feature_control & FEATURE_CONTROL_LOCK &&
        !(feature_control & FEATURE_CONTROL_VMX_OUTSIDE_SMX))
        return refuse(r, REFUSE_UNSUPPORTED,
                      "VMX is locked off by firmware (IA32_FEATURE_CONTROL is 0x%lx, wanted bit 2 "
                      "set): turn on Intel Virtualization Technology (VT-x) in the firmware setup",
                      feature_control);
    return true;
}

bool hypervisor_check_requirements(const struct boot_info *bi, struct settings *s,
                                   struct refusal *r)
{
    const struct options *o = &bi->options;
    struct vmx_capability capability;
    struct vmx_controls controls;
    if (!vmx_is_available(r))
        return false;
    vmx_capability_read(&capability);
    if (!vmx_controls_choose(&capability, o, &controls, r))
        return false;

    /* Only warn, because some firmware merely forgets to clear CR4.VMXE. If firmware really uses
     * VMX, VMXON will fail. */
    if (read_cr4() & CR4_VMXE)
        log_printf(
            "warning: firmware left CR4.VMXE on; should VMXON fail, turn off what uses VMX in "
            "the firmware setup\n");

    if (o->pmu && capability.pmu_version < PMU_VERSION_NEEDED)
        return refuse(r, REFUSE_UNSUPPORTED,
                      "no architectural PMU to pass through (CPUID.0AH version is %u, wanted %u or "
                      "later): start with pmu=off to run without one",
                      capability.pmu_version, PMU_VERSION_NEEDED);

    vmx_capability_print(&capability, o);
    *s = settings_derive(o, bi->acpi.processors);
    return true;
}
