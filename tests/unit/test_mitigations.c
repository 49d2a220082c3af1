/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests of the choice of mitigations from what processors say of themselves.
 */
#include "unit.h"

#include "hypercall.h"
#include "msr.h"
#include "vmx/mitigations.h"
#include "x86.h"

#define ALL_BITS                                                                                   \
    (CPUID_7_EDX_MD_CLEAR | CPUID_7_EDX_SPEC_CTRL | CPUID_7_EDX_L1D_FLUSH |                        \
     CPUID_7_EDX_ARCH_CAPABILITIES)
#define MMIO_NO (ARCH_CAP_SBDR_SSDP_NO | ARCH_CAP_FBSDP_NO | ARCH_CAP_PSDP_NO)
#define CASCADE_LAKE                                                                               \
    (ARCH_CAP_RDCL_NO | ARCH_CAP_IBRS_ALL | ARCH_CAP_SKIP_L1DFL_VMENTRY | ARCH_CAP_MDS_NO)

static void needs(uint64_t ebx, uint64_t edx, uint64_t capabilities, uint32_t wanted)
{
    struct cpuid_result leaf_7 = {.ebx = (uint32_t)ebx, .edx = (uint32_t)edx};

    assert_int_equal(mitigations_needed(leaf_7, capabilities), wanted);
}

TEST(test_nothing_offered)
{
    needs(0, 0, 0, 0);
    needs(~0U, CPUID_7_EDX_ARCH_CAPABILITIES, 0, 0);
}

TEST(test_old_processor)
{
    /* Skylake with its microcode: the flush does what VERW would. */
    needs(CPUID_7_EBX_RTM, ALL_BITS, 0, MITIGATION_RSB | MITIGATION_IBRS | MITIGATION_L1D);
    needs(0, CPUID_7_EDX_MD_CLEAR, 0, MITIGATION_VERW);
    needs(0, ALL_BITS, ARCH_CAP_SKIP_L1DFL_VMENTRY,
          MITIGATION_RSB | MITIGATION_IBRS | MITIGATION_VERW);
}

TEST(test_newer_processors)
{
    const uint32_t branches = MITIGATION_RSB | MITIGATION_IBRS;

    needs(CPUID_7_EBX_RTM, ALL_BITS, CASCADE_LAKE, branches | MITIGATION_VERW);
    needs(CPUID_7_EBX_RTM, ALL_BITS, CASCADE_LAKE | ARCH_CAP_TAA_NO, branches);
    needs(0, ALL_BITS, CASCADE_LAKE, branches);
    needs(0, ALL_BITS, CASCADE_LAKE | ARCH_CAP_TSX_CTRL, branches | MITIGATION_VERW);
    needs(0, ALL_BITS, CASCADE_LAKE | ARCH_CAP_PBRSB_NO, MITIGATION_IBRS);
    needs(0, ALL_BITS, CASCADE_LAKE | ARCH_CAP_PBRSB_NO | ARCH_CAP_RRSBA, branches);
    needs(0, ALL_BITS, CASCADE_LAKE | ARCH_CAP_FB_CLEAR, branches | MITIGATION_VERW);
    needs(0, ALL_BITS, CASCADE_LAKE | ARCH_CAP_FB_CLEAR | MMIO_NO, branches);
    needs(0, ALL_BITS, CASCADE_LAKE | ARCH_CAP_RFDS_CLEAR, branches | MITIGATION_VERW);
}
