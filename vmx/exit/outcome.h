/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Functions with which a handler completes the guest's instruction, lets the guest execute it
 * again, or refuses it.
 */
#pragma once

#include "vmx/cpu.h"

static inline unsigned guest_cpl(void)
{
    return vmcs_read_32(VMCS_GUEST_SS_ACCESS_RIGHTS) >> ACCESS_DPL_SHIFT & 3;
}

/* Returns whether the guest is in 64-bit mode. CS.L alone does not show that: outside IA-32e mode,
 * software may set the bit, and the processor keeps it but ignores it. SDM Vol. 3, "Segment
 * Descriptors", "L (64-bit code segment) flag"; "Checks on Guest RIP, RFLAGS, and SSP", which tests
 * the same two bits. */
static inline bool guest_in_64_bit_mode(void)
{
    return vmcs_read_32(VMCS_ENTRY_CONTROLS) & ENTRY_IA32E_MODE_GUEST &&
           vmcs_read_32(VMCS_GUEST_CS_ACCESS_RIGHTS) & ACCESS_LONG;
}

/* Blocking that ends after one instruction. */
#define BLOCKING_BY_STI_OR_MOV_SS (uint32_t)(BLOCKING_BY_STI | BLOCKING_BY_MOV_SS)
/* The part of skip_bytes() that is rarely needed. */
void complete_instruction(const struct cpu *cpu);

/* Moves the guest past the instruction of `length` bytes that exited, as if it had retired: STI and
 * MOV-SS blocking end, RFLAGS.RF is cleared, and a single step (RFLAGS.TF) traps after the
 * instruction, unless IA32_DEBUGCTL.BTF makes only branches trap.
 * SDM Vol. 3, "Guest Non-Register State", "Saving Non-Register State"; "System Flags and Fields in
 * the EFLAGS Register". */
static inline void skip_bytes(const struct cpu *cpu, uint32_t length)
{
    vmcs_write_natural(VMCS_GUEST_RIP, vmcs_read_natural(VMCS_GUEST_RIP) + length);
    if (__builtin_expect((cpu->blocking & BLOCKING_BY_STI_OR_MOV_SS) != 0, 0) ||
        __builtin_expect((vmcs_read_natural(VMCS_GUEST_RFLAGS) & (RFLAGS_TF | RFLAGS_RF)) != 0, 0))
        complete_instruction(cpu);
}

/* Like skip_bytes(), for exits that an instruction itself causes. These exits report the length. */
static inline void skip_instruction(const struct cpu *cpu)
{
    skip_bytes(cpu, vmcs_read_32(VMCS_EXIT_INSTRUCTION_LENGTH));
}

/* Returns whether RFLAGS.TF makes each instruction trap. Returns false if IA32_DEBUGCTL.BTF limits
 * the trap to branches. SDM Vol. 3, "Single-Stepping on Branches". */
bool single_step_due(void);

/* Makes a single step pending if one is due and the guest is in the shadow of STI or MOV SS, as a
 * VM entry requires. SDM Vol. 3, "Checks on Guest Non-Register State". */
void pend_step_in_shadow(void);

/* Makes the guest re-execute the instruction that exited, in the same shadow of STI or MOV SS. Sets
 * RF, so that the instruction's breakpoint is not reported a second time: if an instruction causes
 * an exit, the exit saves RF as 0 (SDM Vol. 3, "Saving RIP, RSP, RFLAGS, and SSP", footnote). In a
 * shadow, a single step that is due must be pending ("Checks on Guest Non-Register State"). So this
 * function also makes the step pending. */
void reexecute_instruction(void);
/* After an EPT violation between two instructions, makes the guest execute the next instruction,
 * whose breakpoint has not been reported yet. Such an exit saves RF as 1, so this function clears
 * RF. But if the exit came during the delivery of an event, it saved the RF of the event's frame,
 * and this function keeps that RF. SDM Vol. 3, "Saving RIP, RSP, RFLAGS, and SSP". */
void execute_next_instruction(void);

/* Makes the next entry deliver an event that the processor had begun to deliver to the guest.
 * `information` is the exit's interruption information or IDT-vectoring information. */
void inject_event(uint32_t information, uint32_t error_code);
/* Makes the next entry deliver the event whose delivery an exit interrupted. `vectoring` is the
 * exit's IDT-vectoring information. */
void deliver_event_again(struct cpu *cpu, uint32_t vectoring);

/* Called when root mode completes an instruction that accesses `bytes` bytes at `address`. Makes
 * the breakpoints on these bytes trap after the instruction: data breakpoints, or I/O breakpoints
 * if CR4.DE allows them. `kinds` has a bit for each value of DR7's R/W fields. SDM Vol. 3, "Debug
 * Registers"; "Pending Debug Exceptions" in "Guest Non-Register State". */
#define BREAKPOINTS_WRITE (BIT(1) | BIT(3))
#define BREAKPOINTS_READ BIT(3)
#define BREAKPOINTS_PORT BIT(2)
void pend_breakpoints(uint64_t address, unsigned bytes, uint64_t kinds);

/* Each of these makes the guest take an exception at the instruction that exited. */
void inject_gp(void); /* #GP(0) */
void inject_df(void); /* #DF(0) */
void inject_ud(void); /* #UD */
/* Injects a #GP. If the exit interrupted the delivery of an event, injects the exception that the
 * #GP then becomes. Returns the name of the injected exception. */
const char *inject_gp_or_df(struct cpu *cpu);

static inline uint32_t interruption_type(uint32_t information)
{
    return (information & INTERRUPTION_TYPE) >> INTERRUPTION_TYPE_SHIFT;
}

/* ---- the outcome of a #GP that is raised while another event is being delivered. A pure function.
 * SDM Vol. 3, "Interrupt 8 - Double Fault Exception (#DF)", the tables of exception classes;
 * "Information for VM Exits That Occur During Event Delivery". ---- */

/* The exceptions after which a #GP becomes a double fault: contributory exceptions and page
 * faults. */
#define MAKES_DOUBLE_FAULT                                                                         \
    (BIT(VECTOR_DE) | BIT(VECTOR_TS) | BIT(VECTOR_NP) | BIT(VECTOR_SS) | BIT(VECTOR_GP) |          \
     BIT(VECTOR_PF) | BIT(VECTOR_VE) | BIT(VECTOR_CP))

enum delivery_fault { DELIVERY_GP, DELIVERY_DOUBLE_FAULT, DELIVERY_SHUTDOWN };

/* `vectoring` is the IDT-vectoring information of the exit. If the delivery of an NMI, an
 * interrupt, INT n or a benign exception faults, that event is lost, as it is without VMX, and the
 * guest gets only the #GP. */
static inline enum delivery_fault classify_delivery_gp(uint32_t vectoring)
{
    uint32_t vector = vectoring & (uint32_t)INTERRUPTION_VECTOR;

    if (!(vectoring & INTERRUPTION_VALID) ||
        interruption_type(vectoring) != INTERRUPTION_TYPE_HARDWARE_EXCEPTION)
        return DELIVERY_GP;
    if (vector == VECTOR_DF)
        return DELIVERY_SHUTDOWN;
    return vector < 32 && BIT(vector) & MAKES_DOUBLE_FAULT ? DELIVERY_DOUBLE_FAULT : DELIVERY_GP;
}
