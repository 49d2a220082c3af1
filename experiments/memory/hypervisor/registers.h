/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Register bits that the memory trace uses, but the policy does not use. SDM Vol. 3, "Control
 * Registers"; Appendix "VMX Capability Reporting Facility"; "Exit Qualification", table of EPT
 * violations; "VM-Exit Controls"; "Basic VM-Exit Information"; Vol. 1, "Supervisor Shadow Stack
 * Token"; Vol. 2, "CPUID".
 */
#pragma once

#include "bits.h"

/* Bits of IA32_VMX_EPT_VPID_CAP, of the EPT pointer, and of an EPT violation's exit
 * qualification */
#define EPT_CAP_EXECUTE_ONLY BIT(0)
#define EPT_CAP_ACCESSED_DIRTY BIT(21)
#define EPTP_ACCESSED_DIRTY BIT(6)
#define EPT_VIOLATION_READ BIT(0)
#define EPT_VIOLATION_PAGE BITS(5, 3) /* the page's rights: EPT_READ and so on, shifted */
#define EPT_VIOLATION_PAGE_SHIFT 3
#define EPT_VIOLATION_NMI_UNBLOCKING BIT(12) /* an IRET unblocked NMIs before it exited */

/* Page-modification logging. For VMCS fields see vmx/vmcs_fields.h. */
#define SECONDARY_ENABLE_PML BIT(17)
#define VMCS_PML_ADDRESS 0x200e
#define VMCS_GUEST_PML_INDEX 0x0812

/* The secondary VM-exit controls, the bit of the exit reason that EXIT2_PREMATURELY_BUSY enables,
 * and the busy bit of a shadow stack's token. */
#define EXIT_SECONDARY_CONTROLS BIT(31)
#define VMCS_SECONDARY_EXIT_CONTROLS 0x2044
#define EXIT2_PREMATURELY_BUSY BIT(3)
#define EXIT_REASON_PREMATURELY_BUSY BIT(25)
#define SHADOW_STACK_TOKEN_BUSY BIT(0)

#define CR4_PKS BIT(24)
#define CPUID_EXTENDED_1_EDX_PAGE_1G BIT(26)
