/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Register bits that the trace of exits uses, but the policy does not use. SDM Vol. 3,
 * "VM-Execution Control Fields"; "Control Registers"; "IA32_MCG_STATUS MSR"; Vol. 2, "CPUID".
 */
#pragma once

#include "bits.h"

#define PRIMARY_INTERRUPT_WINDOW_EXITING BIT(2)
#define CR4_PCIDE BIT(17)
#define CR3_LAM BITS(62, 61) /* linear-address masking with 48 and with 57 bits */
#define CPUID_7_1_EAX_LAM BIT(26)
#define CPUID_1_EDX_MCA BIT(14) /* machine-check architecture */
#define MCG_STATUS_MCIP BIT(2)  /* machine check in progress */
