/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a handler does with the guest's instruction: skip it, or give the guest an exception.
 */
#ifndef PMUVISOR_VMX_INJECT_H
#define PMUVISOR_VMX_INJECT_H

#include "cpu.h"
#include "vmcs.h"
#include "vmx.h"
#include "x86.h"

/* Moves the guest past the instruction that exited, as if it had retired: STI and MOV-SS blocking
 * end, and a single step (RFLAGS.TF) traps after it. SDM Vol. 3, "Guest Non-Register State". */
static inline void skip_instruction(const struct cpu *cpu)
{
    uint64_t rip = vmcs_read_natural(VMCS_GUEST_RIP);
    uint32_t length = vmcs_read_32(VMCS_EXIT_INSTRUCTION_LENGTH);
    uint32_t blocking = cpu->blocking;

    vmcs_write_natural(VMCS_GUEST_RIP, rip + length);
    if (__builtin_expect(blocking & (BLOCKING_BY_STI | BLOCKING_BY_MOV_SS), 0))
        vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE,
                      blocking & ~(uint32_t)(BLOCKING_BY_STI | BLOCKING_BY_MOV_SS));
    if (__builtin_expect((vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_TF) != 0, 0))
        vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS,
                           vmcs_read_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS) |
                               PENDING_DEBUG_BS);
}

/* The guest takes this exception at the instruction that exited. */
void inject_gp(void); /* #GP(0) */
void inject_ud(void); /* #UD */

#endif
