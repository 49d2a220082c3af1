/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bits of registers, MSRs and CPUID leaves that the tests use, and the hypervisor does not. SDM
 * Vol. 3, "Control Registers"; "System Flags and Fields in the EFLAGS Register"; Vol. 4,
 * "Architectural MSRs".
 */
#pragma once

#include "msr.h"
#include "x86.h"

#define CR0_MP BIT(1)
#define CR4_OSFXSR BIT(9)
#define CR4_OSXMMEXCPT BIT(10)
#define RFLAGS_CF BIT(0)
#define RFLAGS_PF BIT(2)
#define RFLAGS_AF BIT(4)
#define RFLAGS_ZF BIT(6)
#define RFLAGS_SF BIT(7)
#define RFLAGS_DF BIT(10)
#define RFLAGS_OF BIT(11)
#define VECTOR_BP 3
#define CPUID_LEAF_ARCH_LBR 0x1c

#define IA32_TIME_STAMP_COUNTER 0x010
#define IA32_SYSENTER_EIP 0x176
#define IA32_X2APIC_APICID 0x802
#define EFER_SCE BIT(0)
