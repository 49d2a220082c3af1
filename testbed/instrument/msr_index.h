/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Indices and bits of the MSRs that the model has, by the SDM's names. SDM Vol. 4, "Architectural
 * MSRs" and the Skylake server tables; Vol. 3, "Performance Monitoring" and "Debug, Branch Profile,
 * TSC, and Intel Resource Director Technology Features".
 */
#pragma once

#include <cstdint>

constexpr uint32_t IA32_PLATFORM_ID = 0x017;
constexpr uint32_t MSR_SMI_COUNT = 0x034;
constexpr uint32_t IA32_SPEC_CTRL = 0x048;
constexpr uint32_t IA32_PRED_CMD = 0x049;
constexpr uint32_t IA32_BIOS_UPDT_TRIG = 0x079;
constexpr uint32_t IA32_BIOS_SIGN_ID = 0x08b;
constexpr uint32_t IA32_PMC0 = 0x0c1;
constexpr uint32_t MSR_PLATFORM_INFO = 0x0ce;
constexpr uint32_t MSR_PKG_CST_CONFIG_CONTROL = 0x0e2;
constexpr uint32_t IA32_MPERF = 0x0e7;
constexpr uint32_t IA32_APERF = 0x0e8;
constexpr uint32_t IA32_FLUSH_CMD = 0x10b;
constexpr uint32_t IA32_MCG_CAP = 0x179;
constexpr uint32_t IA32_MCG_STATUS = 0x17a;
constexpr uint32_t IA32_PERFEVTSEL0 = 0x186;
constexpr uint32_t IA32_PERF_STATUS = 0x198;
constexpr uint32_t IA32_PERF_CTL = 0x199;
constexpr uint32_t IA32_CLOCK_MODULATION = 0x19a;
constexpr uint32_t IA32_THERM_INTERRUPT = 0x19b;
constexpr uint32_t IA32_THERM_STATUS = 0x19c;
constexpr uint32_t IA32_MISC_ENABLE = 0x1a0;
constexpr uint32_t MSR_TEMPERATURE_TARGET = 0x1a2;
constexpr uint32_t MSR_MISC_FEATURE_CONTROL = 0x1a4;
constexpr uint32_t MSR_OFFCORE_RSP_0 = 0x1a6;
constexpr uint32_t MSR_OFFCORE_RSP_1 = 0x1a7;
constexpr uint32_t MSR_MISC_PWR_MGMT = 0x1aa;
constexpr uint32_t MSR_TURBO_RATIO_LIMIT = 0x1ad;
constexpr uint32_t MSR_TURBO_RATIO_LIMIT_CORES = 0x1ae;
constexpr uint32_t IA32_ENERGY_PERF_BIAS = 0x1b0;
constexpr uint32_t IA32_PACKAGE_THERM_STATUS = 0x1b1;
constexpr uint32_t IA32_PACKAGE_THERM_INTERRUPT = 0x1b2;
constexpr uint32_t MSR_LBR_SELECT = 0x1c8;
constexpr uint32_t MSR_LASTBRANCH_TOS = 0x1c9;
constexpr uint32_t IA32_DEBUGCTL = 0x1d9;
constexpr uint32_t MSR_LER_FROM_LIP = 0x1dd;
constexpr uint32_t MSR_LER_TO_LIP = 0x1de;
constexpr uint32_t MSR_POWER_CTL = 0x1fc;
constexpr uint32_t IA32_FIXED_CTR0 = 0x309;
constexpr uint32_t MSR_PERF_METRICS = 0x329;
constexpr uint32_t IA32_PERF_CAPABILITIES = 0x345;
constexpr uint32_t IA32_FIXED_CTR_CTRL = 0x38d;
constexpr uint32_t IA32_PERF_GLOBAL_STATUS = 0x38e;
constexpr uint32_t IA32_PERF_GLOBAL_CTRL = 0x38f;
constexpr uint32_t IA32_PERF_GLOBAL_STATUS_RESET = 0x390;
constexpr uint32_t IA32_PERF_GLOBAL_STATUS_SET = 0x391;
constexpr uint32_t IA32_PERF_GLOBAL_INUSE = 0x392;
constexpr uint32_t IA32_PEBS_ENABLE = 0x3f1;
constexpr uint32_t MSR_PEBS_DATA_CFG = 0x3f2;
constexpr uint32_t MSR_PEBS_LD_LAT = 0x3f6;
constexpr uint32_t MSR_PEBS_FRONTEND = 0x3f7;
constexpr uint32_t MSR_PKG_C6_RESIDENCY = 0x3f9;
constexpr uint32_t MSR_CORE_C6_RESIDENCY = 0x3fd;
constexpr uint32_t IA32_VMX_MISC = 0x485;
constexpr uint32_t IA32_A_PMC0 = 0x4c1;
/* Intel PT */
constexpr uint32_t IA32_RTIT_OUTPUT_BASE = 0x560;
constexpr uint32_t IA32_RTIT_OUTPUT_MASK_PTRS = 0x561;
constexpr uint32_t IA32_RTIT_CTL = 0x570;
constexpr uint32_t IA32_RTIT_STATUS = 0x571;
constexpr uint32_t IA32_RTIT_CR3_MATCH = 0x572;
constexpr uint32_t IA32_RTIT_ADDR0_A = 0x580; /* then ADDR0_B, ADDR1_A, ... */
constexpr uint32_t IA32_DS_AREA = 0x600;
constexpr uint32_t MSR_VR_CURRENT_CONFIG = 0x601;
constexpr uint32_t MSR_RAPL_POWER_UNIT = 0x606;
constexpr uint32_t MSR_PKGC3_IRTL = 0x60a;
constexpr uint32_t MSR_PKGC6_IRTL = 0x60b;
constexpr uint32_t MSR_PKGC7_IRTL = 0x60c;
constexpr uint32_t MSR_PKG_C2_RESIDENCY = 0x60d;
constexpr uint32_t MSR_PKG_POWER_LIMIT = 0x610;
constexpr uint32_t MSR_PKG_ENERGY_STATUS = 0x611;
constexpr uint32_t MSR_PKG_PERF_STATUS = 0x613;
constexpr uint32_t MSR_PKG_POWER_INFO = 0x614;
constexpr uint32_t MSR_DRAM_POWER_LIMIT = 0x618;
constexpr uint32_t MSR_DRAM_ENERGY_STATUS = 0x619;
constexpr uint32_t MSR_DRAM_PERF_STATUS = 0x61b;
constexpr uint32_t MSR_DRAM_POWER_INFO = 0x61c;
constexpr uint32_t MSR_CONFIG_TDP_NOMINAL = 0x648;
constexpr uint32_t MSR_CONFIG_TDP_LEVEL1 = 0x649;
constexpr uint32_t MSR_CONFIG_TDP_LEVEL2 = 0x64a;
constexpr uint32_t MSR_CONFIG_TDP_CONTROL = 0x64b;
constexpr uint32_t MSR_TURBO_ACTIVATION_RATIO = 0x64c;
constexpr uint32_t MSR_LASTBRANCH_0_FROM_IP = 0x680;
constexpr uint32_t MSR_LASTBRANCH_0_TO_IP = 0x6c0;
/* The local APIC's in x2APIC mode */
constexpr uint32_t X2APIC_FIRST = 0x800;
constexpr uint32_t X2APIC_LAST = 0x8ff;
constexpr uint32_t MSR_LBR_INFO_0 = 0xdc0;
/* Architectural LBRs: 32 of each. */
constexpr uint32_t IA32_LBR_0_INFO = 0x1200;
constexpr uint32_t IA32_LBR_CTL = 0x14ce;
constexpr uint32_t IA32_LBR_DEPTH = 0x14cf;
constexpr uint32_t IA32_LBR_0_FROM_IP = 0x1500;
constexpr uint32_t IA32_LBR_0_TO_IP = 0x1600;
/* Version 6 of the PMU: each counter has four MSRs in a row, the counter first, CFG_A second. */
constexpr uint32_t IA32_PMC_GP0_CTR = 0x1900;
constexpr uint32_t IA32_PMC_GP0_CFG_A = 0x1901;
constexpr uint32_t IA32_PMC_FX0_CTR = 0x1980;
constexpr uint32_t IA32_PMC_STEP = 4;
constexpr uint32_t IA32_LSTAR = 0xc0000082;

constexpr uint64_t bit(unsigned n) { return uint64_t{1} << n; }

/* IA32_PERFEVTSELx */
constexpr uint64_t PERFEVTSEL_EVENT = 0xff;
constexpr unsigned PERFEVTSEL_UMASK_SHIFT = 8;
constexpr uint64_t PERFEVTSEL_UMASK = 0xff;
constexpr uint64_t PERFEVTSEL_USR = bit(16);
constexpr uint64_t PERFEVTSEL_OS = bit(17);
constexpr uint64_t PERFEVTSEL_INT = bit(20);
constexpr uint64_t PERFEVTSEL_EN = bit(22);
constexpr uint64_t PERFEVTSEL_INV = bit(23);
constexpr unsigned PERFEVTSEL_CMASK_SHIFT = 24;
constexpr uint64_t PERFEVTSEL_VALID = 0xffffffff;
constexpr uint64_t PERFEVTSEL_ADAPTIVE = bit(34);
constexpr uint64_t PERFEVTSEL_RDPMC_USER_DISABLE = bit(37);

/* MSR_OFFCORE_RSP_x: the kind of request, then what answered it. SDM Vol. 3, "Off-core Response
 * Performance Monitoring"; names and bits as Linux has them in arch/x86/events/intel/core.c. */
constexpr uint64_t OFFCORE_RSP_VALID = bit(38) - 1;
constexpr uint64_t OFFCORE_DEMAND_DATA_RD = bit(0);
constexpr uint64_t OFFCORE_DEMAND_RFO = bit(1);
constexpr uint64_t OFFCORE_ANY_RESPONSE = bit(16);
constexpr uint64_t OFFCORE_L3_HIT = bit(22) - bit(18);
constexpr uint64_t OFFCORE_L3_MISS_LOCAL_DRAM = bit(26);
constexpr uint64_t OFFCORE_ANY_SNOOP = bit(38) - bit(30);

/* IA32_PRED_CMD */
constexpr uint64_t PRED_CMD_IBPB = bit(0);

/* IA32_FLUSH_CMD */
constexpr uint64_t FLUSH_CMD_L1D = bit(0);

/* IA32_FIXED_CTR_CTRL: four bits for each counter. */
constexpr unsigned FIXED_CTRL_BITS = 4;
constexpr uint64_t FIXED_CTRL_FIELD = 0xf;
constexpr uint64_t FIXED_CTRL_OS = bit(0);
constexpr uint64_t FIXED_CTRL_USR = bit(1);
constexpr uint64_t FIXED_CTRL_PMI = bit(3);
/* Of the first one; the others' follow in steps of FIXED_CTRL_BITS. */
constexpr uint64_t FIXED_CTRL_ADAPTIVE = bit(32);
constexpr uint64_t FIXED_CTRL_RDPMC_USER_DISABLE = bit(33);

/* IA32_PERF_GLOBAL_STATUS and its relatives. */
constexpr unsigned GLOBAL_FIXED_SHIFT = 32;
constexpr uint64_t GLOBAL_PERF_METRICS = bit(48);
constexpr uint64_t GLOBAL_STATUS_TRACE_TOPA_PMI = bit(55);
constexpr uint64_t GLOBAL_STATUS_LBR_FRZ = bit(58);
constexpr uint64_t GLOBAL_STATUS_CTR_FRZ = bit(59);
constexpr uint64_t GLOBAL_STATUS_OVF_UNCORE = bit(61);
constexpr uint64_t GLOBAL_STATUS_OVF_BUFFER = bit(62);
constexpr uint64_t GLOBAL_STATUS_COND_CHGD = bit(63);
constexpr uint64_t GLOBAL_INUSE_PMI = bit(63);

/* IA32_PERF_CAPABILITIES */
constexpr uint64_t PERF_CAP_LBR_FMT_INFO = 5;
constexpr uint64_t PERF_CAP_LBR_FMT = 0x3f; /* all of it set: architectural */
constexpr uint64_t PERF_CAP_PEBS_TRAP = bit(6);
constexpr uint64_t PERF_CAP_PEBS_ARCH_REG = bit(7);
constexpr unsigned PERF_CAP_PEBS_FMT_SHIFT = 8;
constexpr uint64_t PERF_CAP_FREEZE_WHILE_SMM = bit(12);
constexpr uint64_t PERF_CAP_FW_WRITE = bit(13);
constexpr uint64_t PERF_CAP_PEBS_BASELINE = bit(14);
constexpr uint64_t PERF_CAP_METRICS = bit(15);

/* MSR_PEBS_DATA_CFG: the groups of a record beside the basic one, and how many branch records less
 * one. */
constexpr uint64_t DATA_CFG_MEMORY = bit(0);
constexpr uint64_t DATA_CFG_GPRS = bit(1);
constexpr uint64_t DATA_CFG_XMMS = bit(2);
constexpr uint64_t DATA_CFG_LBRS = bit(3);
constexpr unsigned DATA_CFG_LBR_SHIFT = 24;
constexpr uint64_t DATA_CFG_LBR_ENTRIES = 0xff;

/* MSR_PEBS_LD_LAT */
constexpr uint64_t PEBS_LD_LAT_VALID = 0xffff;

/* IA32_DEBUGCTL; the bits of BTS are writable on Skylake-SP. */
constexpr uint64_t DEBUGCTL_LBR = bit(0);
constexpr uint64_t DEBUGCTL_BTF = bit(1);
constexpr uint64_t DEBUGCTL_TR = bit(6);
constexpr uint64_t DEBUGCTL_BTS = bit(7);
constexpr uint64_t DEBUGCTL_BTINT = bit(8);
constexpr uint64_t DEBUGCTL_BTS_OFF_OS = bit(9);
constexpr uint64_t DEBUGCTL_BTS_OFF_USR = bit(10);
constexpr uint64_t DEBUGCTL_FREEZE_LBRS_ON_PMI = bit(11);
constexpr uint64_t DEBUGCTL_FREEZE_PERFMON_ON_PMI = bit(12);
constexpr uint64_t DEBUGCTL_VALID = 0x7fc3;

/* IA32_RTIT_CTL */
constexpr uint64_t RTIT_CTL_TRACEEN = bit(0);
constexpr uint64_t RTIT_CTL_CYCEN = bit(1);
constexpr uint64_t RTIT_CTL_OS = bit(2);
constexpr uint64_t RTIT_CTL_USER = bit(3);
constexpr uint64_t RTIT_CTL_FUPONPTW = bit(5);
constexpr uint64_t RTIT_CTL_CR3FILTER = bit(7);
constexpr uint64_t RTIT_CTL_TOPA = bit(8);
constexpr uint64_t RTIT_CTL_MTCEN = bit(9);
constexpr uint64_t RTIT_CTL_TSCEN = bit(10);
constexpr uint64_t RTIT_CTL_DISRETC = bit(11);
constexpr uint64_t RTIT_CTL_PTWEN = bit(12);
constexpr uint64_t RTIT_CTL_BRANCHEN = bit(13);
constexpr unsigned RTIT_CTL_MTCFREQ_SHIFT = 14; /* and the other fields of four bits */
constexpr unsigned RTIT_CTL_CYCTHRESH_SHIFT = 19;
constexpr unsigned RTIT_CTL_PSBFREQ_SHIFT = 24;
constexpr unsigned RTIT_CTL_ADDR0_CFG_SHIFT = 32; /* ADDR1_CFG, ... follow */
constexpr unsigned RTIT_CTL_FIELD_BITS = 4;
constexpr uint64_t RTIT_CTL_FIELD = 0xf;

/* IA32_RTIT_STATUS */
constexpr uint64_t RTIT_STATUS_FILTEREN = bit(0);
constexpr uint64_t RTIT_STATUS_CONTEXTEN = bit(1);
constexpr uint64_t RTIT_STATUS_TRIGGEREN = bit(2);
constexpr uint64_t RTIT_STATUS_ERROR = bit(4);
constexpr uint64_t RTIT_STATUS_STOPPED = bit(5);
constexpr unsigned RTIT_STATUS_BYTECNT_SHIFT = 32;
constexpr uint64_t RTIT_STATUS_BYTECNT = 0x1ffff;

/* IA32_VMX_MISC: the numbers of bits. */
constexpr unsigned VMX_MISC_WAIT_FOR_SIPI = 8;
constexpr unsigned VMX_MISC_PT_IN_VMX = 14;

/* IA32_MISC_ENABLE */
constexpr uint64_t MISC_ENABLE_FAST_STRINGS = bit(0);
constexpr uint64_t MISC_ENABLE_TCC = bit(3);
constexpr uint64_t MISC_ENABLE_EMON = bit(7);
constexpr uint64_t MISC_ENABLE_BTS_UNAVAIL = bit(11);
constexpr uint64_t MISC_ENABLE_PEBS_UNAVAIL = bit(12);
constexpr uint64_t MISC_ENABLE_EIST = bit(16);
constexpr uint64_t MISC_ENABLE_MONITOR = bit(18);
