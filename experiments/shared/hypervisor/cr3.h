/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Loads of CR3 that exit: each process's once, when it comes.
 */
#pragma once

#include "vmx/cpu.h"

/* IA32_VMX_MISC: how many CR3-target values there may be; and how many are used. SDM Vol. 3,
 * "Miscellaneous Data" in Appendix "VMX Capability Reporting Facility". */
#define VMX_MISC_CR3_TARGETS_SHIFT 16
#define VMX_MISC_CR3_TARGETS BITS(24, 16)
#define CR3_TARGETS 4

/* How Linux changes CR3 inside of one process: between the table of the kernel and that of user
 * space (arch/x86/entry/calling.h, PTI_USER_PGTABLE_AND_PCID_MASK). */
#define CR3_USER_SIDE 0x1800ULL
/* asm/processor-flags.h, X86_CR3_PCID_NOFLUSH */
#define CR3_NO_FLUSH BIT(63)
static inline bool trace_is_load_of_cr3(uint64_t qualification)
{
    const uint64_t fields = CR_ACCESS_NUMBER | CR_ACCESS_TYPE_MASK << CR_ACCESS_TYPE_SHIFT;

    return (qualification & fields) == (3 | CR_ACCESS_MOV_TO << CR_ACCESS_TYPE_SHIFT);
}
/* Loads of this process's tables do not exit from here on, with and without a flush. */
void trace_pass_loads_of(uint64_t value);
