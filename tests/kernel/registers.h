/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bits of registers, MSRs and CPUID leaves that the tests use, and the hypervisor does not. SDM
 * Vol. 3, "Control Registers"; "System Flags and Fields in the EFLAGS Register"; Vol. 4,
 * "Architectural MSRs".
 */
#pragma once

#include "msr.h"
#include "vmx.h"
#include "x86.h"

#define PAGE_SIZE 4096ULL /* as in boot_info.h */
#define CR0_MP BIT(1)
#define CR0_NW BIT(29)
#define CR4_TSD BIT(2)
#define CR4_PCE BIT(8)
#define CR4_OSFXSR BIT(9)
#define CR4_OSXMMEXCPT BIT(10)
#define CR4_RESERVED BIT(15)
#define SH_STK_EN BIT(0) /* in S_CET and U_CET */
#define CET_SS BIT(7)    /* in CPUID.7:ECX */
#define DR6_NONE 0xffff0ff0ULL
#define DR6_BS BIT(14)
#define DR7_GD BIT(13)
#define RFLAGS_CF BIT(0)
#define RFLAGS_PF BIT(2)
#define RFLAGS_AF BIT(4)
#define RFLAGS_ZF BIT(6)
#define RFLAGS_SF BIT(7)
#define RFLAGS_DF BIT(10)
#define RFLAGS_OF BIT(11)
#define RFLAGS_IOPL BITS(13, 12)
#define RFLAGS_VM BIT(17)
#define VECTOR_BP 3
#define CPUID_LEAF_ARCH_LBR 0x1c

#define IA32_TIME_STAMP_COUNTER 0x010
#define IA32_SYSENTER_EIP 0x176
#define IA32_TSC_DEADLINE 0x6e0
#define IA32_X2APIC_APICID 0x802
#define IA32_STAR 0xc0000081
#define IA32_LSTAR 0xc0000082
#define IA32_FMASK 0xc0000084
#define EFER_SCE BIT(0)

/* The local APIC's registers, by their offsets in its page. SDM Vol. 3, "Local APIC". */
#define APIC_PAGE 0xfee00000u
#define APIC_ID 0x020
#define APIC_TPR 0x080
#define APIC_EOI 0x0b0
#define APIC_SVR 0x0f0
#define APIC_ICR_LOW 0x300
#define APIC_ICR_HIGH 0x310
#define APIC_LVT_TIMER 0x320
#define APIC_LVT_PMI 0x340
#define APIC_LVT_LINT0 0x350
#define APIC_LVT_ERROR 0x370
#define APIC_TIMER_INITIAL 0x380
#define APIC_TIMER_CURRENT 0x390
#define APIC_TIMER_DIVIDE 0x3e0
#define XAPIC_ID_SHIFT 24
#define ICR_SELF (1u << 18)
#define X2APIC_MSR 0x800 /* + offset / 16 */
#define X2APIC_ICR 0x830
#define X2APIC_SELF_IPI 0x83f

/* The PMU. SDM Vol. 3, "Performance Monitoring". */
#define FIXED_COUNTER_0 BIT(32) /* in GLOBAL_CTRL and GLOBAL_STATUS */
#define COUNTER_WIDTH 48
#define COUNTER_MASK BITS(47, 0)
#define FIXED_0_OS 1 /* in FIXED_CTR_CTRL */
#define FIXED_0_PMI BIT(3)
#define FIXED_0_OS_PMI 9
#define EVTSEL_USR BIT(16)

/* Intel PT. SDM Vol. 3, "Intel Processor Trace". */
#define IA32_RTIT_OUTPUT_MASK_PTRS 0x561
#define IA32_RTIT_CR3_MATCH 0x572
#define RTIT_CTL_OS BIT(2)
#define RTIT_CTL_TOPA BIT(8)
#define RTIT_CTL_BRANCH_EN BIT(13)
#define RTIT_STATUS_TRIGGER_EN BIT(2)
#define TOPA_END BIT(0)
#define TOPA_INT BIT(2)
#define STATUS_TOPA_PMI BIT(55)
#define PACKET_TIP_PGD 0x01 /* without an IP */

/* SDM Vol. 3, "Segment Descriptors". */
#define DPL_3 (3ULL << 45)
#define DESCRIPTOR_L BIT(53)
#define DESCRIPTOR_D BIT(54)

#define MSR_NOBODYS 0x40000000 /* outside both ranges of the MSR bitmap: it always exits */
#define NO_HYPERCALL 0x7fffffff
