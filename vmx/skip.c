/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the end of an instruction that is skipped changes besides RIP, where it changes anything;
 * and what one begins with that is executed again. SDM Vol. 3, "Guest Non-Register State".
 */
#include "vmx/inject.h"

/* What traps after the instruction: these breakpoints, and a single step. */
static void pend(uint64_t met)
{
    if (vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_TF &&
        !(vmcs_read_64(VMCS_GUEST_IA32_DEBUGCTL) & DEBUGCTL_BTF))
        met |= PENDING_DEBUG_BS;
    vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS,
                       vmcs_read_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS) | met);
}

void end_instruction(const struct cpu *cpu)
{
    uint64_t rflags = vmcs_read_natural(VMCS_GUEST_RFLAGS);

    if (cpu->blocking & BLOCKING_ENDS_BEHIND)
        vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE, cpu->blocking & ~BLOCKING_ENDS_BEHIND);
    if (rflags & RFLAGS_RF)
        vmcs_write_natural(VMCS_GUEST_RFLAGS, rflags & ~RFLAGS_RF);
    if (rflags & RFLAGS_TF)
        pend(0);
}

void execute_again(void)
{
    vmcs_write_natural(VMCS_GUEST_RFLAGS, vmcs_read_natural(VMCS_GUEST_RFLAGS) | RFLAGS_RF);
    if (vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE) & BLOCKING_ENDS_BEHIND)
        pend(0);
}

void meet_breakpoints(uint64_t address, unsigned bytes, uint64_t kinds)
{
    static const uint8_t lengths[] = {1, 2, 8, 4}; /* by DR7's LEN field */
    uint64_t at[4], dr7 = vmcs_read_natural(VMCS_GUEST_DR7), met = 0;

    if (kinds == BREAKPOINTS_PORT && !(vmcs_read_natural(VMCS_GUEST_CR4) & CR4_DE))
        return;
    __asm__("mov %%dr0, %0; mov %%dr1, %1; mov %%dr2, %2; mov %%dr3, %3"
            : "=r"(at[0]), "=r"(at[1]), "=r"(at[2]), "=r"(at[3]));
    for (unsigned n = 0; n < LENGTH_OF(at); n++) {
        uint64_t control = dr7 >> (16 + 4 * n), length = lengths[control >> 2 & 3]; /* R/W, LEN */
        uint64_t first = at[n] & ~(length - 1);

        if (kinds >> (control & 3) & 1 && (address - first < length || first - address < bytes))
            met |= BIT(n) | (dr7 >> 2 * n & 3 ? PENDING_DEBUG_ENABLED : 0);
    }
    if (met & PENDING_DEBUG_ENABLED)
        pend(met);
}
