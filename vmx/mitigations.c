/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Chooses the mitigations that entry.asm applies at exits and entries, so that the guest learns
 * nothing about root mode through speculative execution. The choice depends on the features that
 * the processor reports. The mitigations do not cover other hyperthreads. SDM Vol. 2, "CPUID", leaf
 * 07H; Vol. 4, "IA32_ARCH_CAPABILITIES"; Intel, "Software Security Guidance": L1 terminal fault,
 * microarchitectural data sampling, branch target injection, return stack buffer.
 */
#include "vmx/mitigations.h"

#include "hypercall.h"
#include "vmx/capability.h"

#define CAPABILITIES_MMIO_NO (ARCH_CAP_SBDR_SSDP_NO | ARCH_CAP_FBSDP_NO | ARCH_CAP_PSDP_NO)

uint32_t mitigations_needed(struct cpuid_result leaf_7, uint64_t capabilities)
{
    bool rtm = leaf_7.ebx & CPUID_7_EBX_RTM || capabilities & ARCH_CAP_TSX_CTRL;
    bool ibrs = leaf_7.edx & CPUID_7_EDX_SPEC_CTRL;
    /* Enhanced IBRS covers the return stack buffer, with one known exception. */
    bool rsb = ibrs &&
               (!(capabilities & ARCH_CAP_IBRS_ALL) || !(capabilities & ARCH_CAP_PBRSB_NO) ||
                capabilities & (ARCH_CAP_RSBA | ARCH_CAP_RRSBA));
    bool l1d = leaf_7.edx & CPUID_7_EDX_L1D_FLUSH &&
               !(capabilities & (ARCH_CAP_RDCL_NO | ARCH_CAP_SKIP_L1DFL_VMENTRY));
    bool sampling = leaf_7.edx & CPUID_7_EDX_MD_CLEAR &&
                    (!(capabilities & ARCH_CAP_MDS_NO) ||
                     (rtm && !(capabilities & ARCH_CAP_TAA_NO)));
    bool stale = capabilities & ARCH_CAP_FB_CLEAR &&
                 (capabilities & CAPABILITIES_MMIO_NO) != CAPABILITIES_MMIO_NO;
    /* The L1D flush overwrites these buffers too. */
    bool verw = (sampling || stale || capabilities & ARCH_CAP_RFDS_CLEAR) && !l1d;

    return (ibrs ? MITIGATION_IBRS : 0) | (rsb ? MITIGATION_RSB : 0) | (l1d ? MITIGATION_L1D : 0) |
           (verw ? MITIGATION_VERW : 0);
}

void mitigations_setup(struct cpu *cpu)
{
    if (!cpu->boot->options.mitigations_off)
        cpu->mitigations = (uint32_t)MITIGATIONS_AUTO |
                           mitigations_needed(cpuid_extended_features(), read_arch_capabilities());
}

void mitigations_print(const struct cpu *cpu)
{
    static const char *const names[] = {"RSB fill", "IBRS", "L1D flush", "VERW"};
    uint32_t on = cpu->mitigations;

    log_printf("pmuvisor: mitigations:%s", on == 0 ? " off"
                                           : on == MITIGATIONS_AUTO
                                               ? " none needed, or none offered"
                                               : "");
    for (unsigned i = 0; i < LENGTH_OF(names); i++)
        if (on >> i & 1)
            log_printf("%s %s", on & ((1u << i) - 1) ? "," : "", names[i]);
    log_printf("\n");
}
