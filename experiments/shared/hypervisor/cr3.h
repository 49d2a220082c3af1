/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Makes a load of CR3 exit when the load switches the processor to another process. After that
 * exit, loads of that process's page tables do not exit.
 */
#pragma once

#include "vmx/cpu.h"

/* The number of CR3-target values. IA32_VMX_MISC tells how many of them the processor supports. The
 * hypervisor uses CR3_TARGETS of them. SDM Vol. 3, "Miscellaneous Data" in Appendix "VMX Capability
 * Reporting Facility". */
#define VMX_MISC_CR3_TARGETS_SHIFT 16
#define VMX_MISC_CR3_TARGETS BITS(24, 16)
#define CR3_TARGETS 4

/* The bits of CR3 that Linux changes within one process to switch between the kernel's page table
 * and user space's page table (arch/x86/entry/calling.h, PTI_USER_PGTABLE_AND_PCID_MASK). */
#define CR3_USER_SIDE 0x1800ULL
/* X86_CR3_PCID_NOFLUSH in Linux's asm/processor-flags.h */
#define CR3_NO_FLUSH BIT(63)
static inline bool trace_is_load_of_cr3(uint64_t qualification)
{
    const uint64_t fields = CR_ACCESS_NUMBER | CR_ACCESS_TYPE_MASK << CR_ACCESS_TYPE_SHIFT;

    return (qualification & fields) == (3 | CR_ACCESS_MOV_TO << CR_ACCESS_TYPE_SHIFT);
}
/* From now on, a load of one of this process's two page tables does not exit, with or without a
 * flush. */
void trace_set_cr3_targets(uint64_t value);
