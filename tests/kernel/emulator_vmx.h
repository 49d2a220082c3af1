/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A guest of the test kernel, for tests of VMX in the emulator. It shares the kernel's address
 * space. SDM Vol. 3, "VMCS Maintenance Instructions", "Field Encoding in VMCS".
 */
#pragma once

#include "emulator.h"
#include "vmx/vmcs.h"

/* Fields and controls that the hypervisor does not use. */
#define VMCS_POSTED_VECTOR 0x0002
#define VMCS_GUEST_INTERRUPT_STATUS 0x0810
#define VMCS_VIRTUAL_APIC 0x2012
#define VMCS_POSTED_DESCRIPTOR 0x2016
#define VMCS_EOI_EXIT_BITMAP 0x201c
#define PIN_POSTED BIT(7)
#define PRIMARY_INTERRUPT_WINDOW BIT(2)
#define PRIMARY_TPR_SHADOW BIT(21)
#define SECONDARY_OF_VIRTUAL_APIC                                                                  \
    (BIT(4) | BIT(8) | BIT(9)) /* with x2APIC mode and its registers */
#define EXIT_ACKNOWLEDGE_INTERRUPT BIT(15)

#define REASON_ENTRY_GUEST_STATE (EXIT_REASON_ENTRY_FAILURE | EXIT_REASON_ENTRY_FAILURE_GUEST_STATE)
#define ERROR_CONTROLS 7 /* SDM Vol. 3, "VM Instruction Error Numbers" */
#define ERROR_HOST_STATE 8

/* Enters VMX operation, once, with a VMCS for the guest. */
void vmx_begin(void);
/* Sets or clears bits of a field. */
void vmx_set(uint32_t field, uint64_t bits, bool on);
/* Runs one job in the guest. Returns the exit reason, which is a VMCALL at the job's end. */
uint64_t vmx_run(void (*job)(void));
/* Returns the VM-instruction error of an entry that is refused before it loads the guest's state.
 */
uint64_t vmx_refusal(void (*job)(void));
