/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The model-specific registers that PMUvisor names, and their bits. SDM Vol. 4, "Architectural
 * MSRs"; names without IA32_ are from Vol. 4's tables for single processor models. If the SDM has
 * no name for a register, the register's line gives the source of the name.
 */
#pragma once

#include "bits.h"

#define MSR_KVM_WALL_CLOCK 0x011 /* Linux, Documentation/virt/kvm/x86/msr.rst */
#define MSR_KVM_SYSTEM_TIME 0x012
#define IA32_APIC_BASE 0x01b
#define APIC_BASE_BSP BIT(8)
#define APIC_BASE_EXTD BIT(10) /* x2APIC mode */
#define APIC_BASE_EN BIT(11)
#define APIC_BASE_ADDRESS BITS(51, 12)
#define IA32_USER_MSR_CTL 0x01c
#define MSR_MEMORY_CTRL 0x033
#define MEMORY_CTRL_UC_LOCK_DISABLE BIT(28)
#define IA32_FEATURE_CONTROL 0x03a
#define FEATURE_CONTROL_LOCK BIT(0)
#define FEATURE_CONTROL_VMX_INSIDE_SMX BIT(1)
#define FEATURE_CONTROL_VMX_OUTSIDE_SMX BIT(2)
#define FEATURE_CONTROL_SENTER BITS(15, 8)
#define FEATURE_CONTROL_SGX_LC BIT(17)
#define FEATURE_CONTROL_SGX BIT(18)
#define IA32_SPEC_CTRL 0x048
#define SPEC_CTRL_IBRS BIT(0)
#define IA32_BIOS_UPDT_TRIG 0x079
#define MSR_TRACE_HUB_STH_ACPIBAR_BASE 0x080
#define IA32_BIOS_SIGN_ID 0x08b
#define IA32_SGXLEPUBKEYHASH0 0x08c
#define IA32_SMM_MONITOR_CTL 0x09b
#define IA32_SMBASE 0x09e
#define IA32_XAPIC_DISABLE_STATUS 0x0bd
#define XAPIC_DISABLE_LEGACY BIT(0) /* x2APIC mode is locked on */
#define IA32_PMC0 0x0c1
#define MSR_PKG_CST_CONFIG_CONTROL 0x0e2
#define PKG_CST_IO_MWAIT_REDIRECTION BIT(10)
#define MSR_PMG_IO_CAPTURE_BASE 0x0e4
#define PMG_IO_CAPTURE_LVL_2 BITS(15, 0) /* the first port; later ports reach deeper C-states */
#define IA32_CORE_CAPABILITIES 0x0cf
#define CORE_CAP_RAR BIT(1)
#define CORE_CAP_INTEGRITY BIT(2)
#define CORE_CAP_UC_LOCK_DISABLE BIT(4)
#define MSR_RAR_CONTROL 0x0ed
#define MSR_RAR_INFO 0x0f0
#define IA32_MTRRCAP 0x0fe
#define MTRRCAP_VCNT BITS(7, 0) /* number of variable ranges */
#define MTRRCAP_FIX BIT(8)      /* fixed ranges are supported */
#define MSR_ARRAY_BIST 0x105
#define IA32_ARCH_CAPABILITIES 0x10a
#define ARCH_CAP_RDCL_NO BIT(0)
#define ARCH_CAP_IBRS_ALL BIT(1)
#define ARCH_CAP_RSBA BIT(2)
#define ARCH_CAP_SKIP_L1DFL_VMENTRY BIT(3)
#define ARCH_CAP_MDS_NO BIT(5)
#define ARCH_CAP_TSX_CTRL BIT(7) /* RTM may be off now, and the guest may turn it on */
#define ARCH_CAP_TAA_NO BIT(8)
#define ARCH_CAP_SBDR_SSDP_NO BIT(13)
#define ARCH_CAP_FBSDP_NO BIT(14)
#define ARCH_CAP_PSDP_NO BIT(15)
#define ARCH_CAP_FB_CLEAR BIT(17)
#define ARCH_CAP_FB_CLEAR_CTRL BIT(18)
#define ARCH_CAP_RRSBA BIT(19)
#define ARCH_CAP_XAPIC_DISABLE BIT(21)
#define ARCH_CAP_PBRSB_NO BIT(24)
#define ARCH_CAP_RFDS_CLEAR BIT(28)
#define IA32_FLUSH_CMD 0x10b
#define FLUSH_CMD_L1D BIT(0)
#define IA32_MCU_OPT_CTRL 0x123
#define MCU_OPT_CTRL_FB_CLEAR_DIS BIT(3)
#define MSR_OC_MAILBOX 0x150 /* Linux, drivers/platform/x86/intel/turbo_max_3.c */
#define IA32_MCG_CAP 0x179
#define MCG_CAP_COUNT BITS(7, 0)
#define IA32_MCG_STATUS 0x17a
#define IA32_PERFEVTSEL0 0x186
#define EVTSEL_OS BIT(17)
#define EVTSEL_INT BIT(20)
#define EVTSEL_EN BIT(22)
#define IA32_MISC_ENABLE 0x1a0
#define MISC_ENABLE_EMON BIT(7) /* the processor has a PMU; read-only, like the next two bits */
#define MISC_ENABLE_BTS_UNAVAILABLE BIT(11)
#define MISC_ENABLE_PEBS_UNAVAILABLE BIT(12)
#define MISC_ENABLE_MONITOR BIT(18)
#define MISC_ENABLE_XD_DISABLE BIT(34)
#define MSR_OFFCORE_RSP_0 0x1a6
#define MSR_OFFCORE_RSP_1 0x1a7
#define MSR_LBR_SELECT 0x1c8
#define MSR_LASTBRANCH_TOS 0x1c9
#define IA32_FRED_RSP0 0x1cc /* .. 0x1d4, IA32_FRED_CONFIG */
#define IA32_DEBUGCTL 0x1d9
#define DEBUGCTL_LBR BIT(0)
#define DEBUGCTL_BTF BIT(1) /* RFLAGS.TF traps on branches only */
#define DEBUGCTL_BTS BIT(7)
#define DEBUGCTL_BTINT BIT(8) /* an interrupt through LVTPC when the BTS buffer is full */
#define DEBUGCTL_FREEZE_LBRS_ON_PMI BIT(11)
#define DEBUGCTL_FREEZE_PERFMON_ON_PMI BIT(12)
#define IA32_SMRR_PHYSBASE 0x1f2
#define MSR_PRMRR_PHYSMASK 0x1f5
#define IA32_MTRR_PHYSBASE0 0x200
#define IA32_MTRR_PHYSMASK0 0x201
#define MTRR_PHYSMASK_V BIT(11)   /* this pair is in use */
#define MTRR_ADDRESS BITS(63, 12) /* the address in PHYSBASE and PHYSMASK */
#define IA32_MTRR_FIX64K_00000 0x250
#define IA32_MTRR_FIX16K_80000 0x258
#define IA32_MTRR_FIX16K_A0000 0x259
#define IA32_MTRR_FIX4K_C0000 0x268 /* .. 0x26f, FIX4K_F8000 */
#define IA32_MTRR_FIX4K_F8000 0x26f
#define IA32_PAT 0x277
#define MSR_PRMRR_BASE_0 0x2a0
#define MSR_PRMRR_BASE_7 0x2a7
#define MSR_COPY_SBFT_HASHES 0x2b8
#define MSR_PERIODIC_MEM_BIST_STATUS 0x2d7
#define IA32_INTEGRITY_CAPABILITIES 0x2d9 /* Linux, MSR_INTEGRITY_CAPS */
#define MSR_NO_EVICT_MODE 0x2e0           /* coreboot calls it MSR_EVICT_CTL */
#define MSR_UNCORE_PRMRR_PHYSBASE 0x2f4
#define MSR_UNCORE_PRMRR_PHYSMASK 0x2f5
#define IA32_MTRR_DEF_TYPE 0x2ff
#define MTRR_TYPE BITS(7, 0)     /* here, in PHYSBASE, and in each byte of a fixed-range register */
#define MTRR_DEF_TYPE_FE BIT(10) /* fixed ranges are enabled */
#define MTRR_DEF_TYPE_E BIT(11)
#define IA32_FIXED_CTR0 0x309
#define MSR_PERF_METRICS 0x329
#define IA32_PERF_CAPABILITIES 0x345
#define PERF_CAP_FW_WRITE BIT(13)
#define IA32_FIXED_CTR_CTRL 0x38d
#define IA32_PERF_GLOBAL_STATUS 0x38e
#define GLOBAL_STATUS_LBR_FRZ BIT(58)
#define GLOBAL_STATUS_CTR_FRZ BIT(59)
#define GLOBAL_STATUS_COND_CHGD BIT(63) /* not in IA32_PERF_GLOBAL_STATUS_SET */
/* The bits that the processor sets together with a PMI: the bits of counters (48: PERF_METRICS), of
 * Intel PT's output, of the uncore, and of the PEBS buffer. If the PEBS buffer raises the PMI, the
 * processor clears the counter's own bit. The bits of freezes and of SGX (60) come without a
 * PMI. */
#define GLOBAL_STATUS_PMI (BITS(55, 0) | BIT(61) | BIT(62))
#define IA32_PERF_GLOBAL_CTRL 0x38f
#define GLOBAL_CTRL_FIXED_SHIFT 32
#define IA32_PERF_GLOBAL_STATUS_RESET 0x390
#define IA32_PERF_GLOBAL_STATUS_SET 0x391
#define IA32_PERF_GLOBAL_INUSE 0x392
#define MSR_OMR_0 0x3e0 /* Linux, arch/x86/include/asm/msr-index.h; 1 to 3 follow */
#define IA32_PEBS_ENABLE 0x3f1
#define MSR_PEBS_DATA_CFG 0x3f2
#define IA32_PEBS_BASE 0x3f4 /* IA32_PEBS_INDEX follows */
#define MSR_PEBS_LD_LAT 0x3f6
#define MSR_PEBS_FRONTEND 0x3f7
#define IA32_MC0_STATUS 0x401 /* ADDR, MISC and the next bank's CTL follow */
#define MC_BANK_MSRS 4
#define MC_STATUS_VAL BIT(63)
#define MC_STATUS_MISCV BIT(59)
#define MC_STATUS_ADDRV BIT(58)
#define IA32_VMX_BASIC 0x480
#define IA32_VMX_PINBASED_CTLS 0x481
#define IA32_VMX_PROCBASED_CTLS 0x482
#define IA32_VMX_EXIT_CTLS 0x483
#define IA32_VMX_ENTRY_CTLS 0x484
#define IA32_VMX_MISC 0x485
#define IA32_VMX_CR0_FIXED0 0x486
#define IA32_VMX_CR0_FIXED1 0x487
#define IA32_VMX_CR4_FIXED0 0x488
#define IA32_VMX_PROCBASED_CTLS2 0x48b
#define IA32_VMX_EPT_VPID_CAP 0x48c
#define IA32_VMX_TRUE_PINBASED_CTLS 0x48d
#define IA32_VMX_TRUE_PROCBASED_CTLS 0x48e
#define IA32_VMX_TRUE_EXIT_CTLS 0x48f
#define IA32_VMX_TRUE_ENTRY_CTLS 0x490
#define IA32_VMX_PROCBASED_CTLS3 0x492
#define IA32_VMX_EXIT_CTLS2 0x493
#define IA32_A_PMC0 0x4c1
#define MSR_SMM_FEATURE_CONTROL 0x4e0
#define MSR_SMM_BLOCKED 0x4e3
#define MSR_SAF_CTRL 0x4f0
#define MSR_SBFT_CTRL 0x4f8
#define IA32_RTIT_OUTPUT_BASE 0x560
#define IA32_RTIT_CTL 0x570
#define RTIT_CTL_TRACE_EN BIT(0)
#define IA32_RTIT_STATUS 0x571
#define RTIT_STATUS_ERROR BIT(4)
#define IA32_RTIT_ADDR0_A 0x580
#define IA32_RTIT_ADDR3_B 0x587
#define IA32_DS_AREA 0x600
#define MSR_LASTBRANCH_0_FROM_IP 0x680
#define IA32_U_CET 0x6a0
#define IA32_S_CET 0x6a2
#define IA32_PL0_SSP 0x6a4
#define IA32_INTERRUPT_SSP_TABLE_ADDR 0x6a8
#define MSR_LASTBRANCH_0_TO_IP 0x6c0
#define LBR_RECORDS 32 /* MSRs in each block of FROM, TO or INFO; some processors have fewer */
#define LBR_ADDRESS BITS(47, 0) /* in FROM and TO; some processors have flags above the address */
#define IA32_TME_ACTIVATE 0x982
#define TME_ACTIVATE_KEYID_BITS_SHIFT 32
#define TME_ACTIVATE_KEYID_BITS 0xf
#define IA32_TME_EXCLUDE_BASE 0x984
#define IA32_UINTR_RR 0x985 /* .. 0x98a, IA32_UINTR_TT */
#define IA32_COPY_STATUS 0x990
#define IA32_IWKEYBACKUP_STATUS 0x991
#define IA32_DEBUG_INTERFACE 0xc80
#define IA32_COPY_LOCAL_TO_PLATFORM 0xd91
#define IA32_COPY_PLATFORM_TO_LOCAL 0xd92
#define IA32_XSS 0xda0 /* SDM Vol. 1, "XSAVE-Supported Features and State-Component Bitmaps" */
#define XSS_PT BIT(8)
#define XSS_CET (BIT(11) | BIT(12)) /* user and supervisor */
#define XSS_UINTR BIT(14)
#define XSS_LBR BIT(15)
#define MSR_LBR_INFO_0 0xdc0
#define IA32_LBR_INFO0 0x1200
#define MSR_RELOAD_FIXED_CTR0 0x1309
#define MSR_SNOOP_RSP_0 0x1328 /* Linux, arch/x86/include/asm/msr-index.h; 1 follows */
#define IA32_SEAMRR_PHYSBASE 0x1400
#define IA32_SEAMRR_PHYSMASK 0x1401
#define MSR_RELOAD_PMC0 0x14c1
/* The bits are from Linux, arch/x86/include/asm/msr-index.h, events/intel/lbr.c */
#define IA32_LBR_CTL 0x14ce
#define LBR_CTL_ROOT_ALL (BIT(0) | BIT(1) | BITS(22, 16)) /* LBREn, OS, every kind of branch */
#define IA32_LBR_DEPTH 0x14cf
#define IA32_LBR_FROM0 0x1500
#define IA32_LBR_TO0 0x1600
#define IA32_HW_FEEDBACK_PTR 0x17d0
#define IA32_HW_FEEDBACK_THREAD_CONFIG 0x17d4
/* PMU version 6: CTR, CFG_A, CFG_B and CFG_C of each counter. Up to 32 general counters come first,
 * then up to 32 fixed counters. */
#define IA32_PMC_GP0_CTR 0x1900
#define PMC_STEP 4
#define IA32_PMC_FX0_CTR 0x1980
#define IA32_PMC_FX31_LAST 0x19ff
#define IA32_X2APIC_FIRST 0x800
#define IA32_X2APIC_LAST 0x8ff
#define IA32_EFER 0xc0000080
#define EFER_LME BIT(8)
#define EFER_LMA BIT(10)
#define EFER_NXE BIT(11)
#define IA32_GS_BASE 0xc0000101
