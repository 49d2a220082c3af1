/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Completes the guest's instruction, makes the guest execute it again, or refuses it. SDM Vol. 3,
 * "Guest Non-Register State"; "VM-Entry Controls for Event Injection"; "Information for VM Exits
 * That Occur During Event Delivery"; "Interrupt 8 - Double Fault Exception (#DF)".
 */
#include "vmx/exit/exit.h"

/* ---- completed, or executed again ---- */

bool single_step_due(void)
{
    return vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_TF &&
           !(vmcs_read_64(VMCS_GUEST_IA32_DEBUGCTL) & DEBUGCTL_BTF);
}

/* Makes the breakpoints in `met`, and a single step if one is due, trap after the instruction. */
static void pend_debug_traps(uint64_t met)
{
    if (single_step_due())
        met |= PENDING_DEBUG_BS;
    vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS,
                       vmcs_read_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS) | met);
}

void complete_instruction(const struct cpu *cpu)
{
    uint64_t rflags = vmcs_read_natural(VMCS_GUEST_RFLAGS);

    if (cpu->blocking & BLOCKING_BY_STI_OR_MOV_SS)
        vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE,
                      cpu->blocking & ~BLOCKING_BY_STI_OR_MOV_SS);
    if (rflags & RFLAGS_RF)
        vmcs_write_natural(VMCS_GUEST_RFLAGS, rflags & ~RFLAGS_RF);
    if (rflags & RFLAGS_TF)
        pend_debug_traps(0);
}

void pend_step_in_shadow(void)
{
    if (vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE) & BLOCKING_BY_STI_OR_MOV_SS)
        pend_debug_traps(0);
}

void reexecute_instruction(void)
{
    vmcs_write_natural(VMCS_GUEST_RFLAGS, vmcs_read_natural(VMCS_GUEST_RFLAGS) | RFLAGS_RF);
    pend_step_in_shadow();
}

void execute_next_instruction(void)
{
    if (!(vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID))
        vmcs_write_natural(VMCS_GUEST_RFLAGS,
                           vmcs_read_natural(VMCS_GUEST_RFLAGS) & ~(uint64_t)RFLAGS_RF);
    pend_step_in_shadow();
}

void pend_breakpoints(uint64_t address, unsigned bytes, uint64_t kinds)
{
    static const uint8_t lengths[] = {1, 2, 8, 4}; /* indexed by DR7's LEN field */
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
        pend_debug_traps(met);
}

/* ---- delivered by the next entry ---- */

void inject_event(uint32_t information, uint32_t error_code)
{
    if (information & INTERRUPTION_ERROR_CODE)
        vmcs_write_32(VMCS_ENTRY_EXCEPTION_ERROR_CODE, error_code);
    if (interruption_type(information) >= INTERRUPTION_TYPE_SOFTWARE)
        vmcs_write_32(VMCS_ENTRY_INSTRUCTION_LENGTH, vmcs_read_32(VMCS_EXIT_INSTRUCTION_LENGTH));
    vmcs_write_32(VMCS_ENTRY_INTERRUPTION_INFORMATION,
                  information & (uint32_t)(INTERRUPTION_VALID | BITS(11, 0)));
}

void deliver_event_again(struct cpu *cpu, uint32_t vectoring)
{
    /* The interrupted delivery of an NMI has already blocked NMIs. Unblock them, because the
     * injection blocks them again. Also end the shadow of STI or MOV SS, because not every
     * processor accepts the injection of an NMI there. */
    if (interruption_type(vectoring) == INTERRUPTION_TYPE_NMI)
        vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE,
                      cpu->blocking & ~((uint32_t)BLOCKING_BY_NMI | BLOCKING_BY_STI_OR_MOV_SS));
    inject_event(vectoring, vmcs_read_32(VMCS_IDT_VECTORING_ERROR_CODE));
}

/* ---- refused ---- */

static void inject_exception(uint8_t vector, bool has_error_code)
{
    uint32_t information = vector | INTERRUPTION_VALID |
                           INTERRUPTION_TYPE_HARDWARE_EXCEPTION << INTERRUPTION_TYPE_SHIFT;

    /* In real mode, exceptions have no error codes, and an entry that injects one would fail. */
    if (has_error_code && vmcs_read_natural(VMCS_GUEST_CR0) & CR0_PE) {
        information |= INTERRUPTION_ERROR_CODE;
        vmcs_write_32(VMCS_ENTRY_EXCEPTION_ERROR_CODE, 0);
    }
    vmcs_write_32(VMCS_ENTRY_INTERRUPTION_INFORMATION, information);
    /* A fault pushes RF as 1, but an injected fault pushes the guest's RF ("Details of
     * Vectored-Event Injection"). So set RF, as for an instruction that is executed again. A debug
     * exception that waits in the shadow of STI or MOV SS is lost, as it is natively. */
    reexecute_instruction();
}

void inject_gp(void) { inject_exception(VECTOR_GP, true); }
void inject_df(void) { inject_exception(VECTOR_DF, true); }
void inject_ud(void) { inject_exception(VECTOR_UD, false); }

const char *inject_gp_or_df(struct cpu *cpu)
{
    enum delivery_fault fault = classify_delivery_gp(vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION));

    if (fault == DELIVERY_SHUTDOWN)
        exit_triple_fault(cpu);
    /* The guest may be halted, if a PEBS record caused the exit. No #GP can be injected into a
     * halted guest, so end the halt. */
    vmcs_zero_field(VMCS_GUEST_ACTIVITY_STATE);
    if (fault == DELIVERY_DOUBLE_FAULT) {
        inject_df();
        return "double fault";
    }
    inject_gp();
    return "#GP";
}
