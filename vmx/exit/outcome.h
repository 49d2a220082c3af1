/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a handler does with the guest's instruction: completes it, lets the guest execute it again,
 * or refuses it.
 */
#pragma once

#include "vmx/cpu.h"

static inline unsigned guest_cpl(void)
{
    return vmcs_read_32(VMCS_GUEST_SS_ACCESS_RIGHTS) >> ACCESS_DPL_SHIFT & 3;
}

/* Whether the guest is in 64-bit mode. CS.L alone does not tell: outside IA-32e mode software may
 * set the bit, and the processor keeps it and ignores it. SDM Vol. 3, "Segment Descriptors", "L
 * (64-bit code segment) flag"; "Checks on Guest RIP, RFLAGS, and SSP", which asks for the same two
 * bits. */
static inline bool guest_in_64_bit_mode(void)
{
    return vmcs_read_32(VMCS_ENTRY_CONTROLS) & ENTRY_IA32E_MODE_GUEST &&
           vmcs_read_32(VMCS_GUEST_CS_ACCESS_RIGHTS) & ACCESS_LONG;
}

/* Blocking that an instruction ends. */
#define BLOCKING_ENDS_BEHIND (uint32_t)(BLOCKING_BY_STI | BLOCKING_BY_MOV_SS)
/* Of skip_bytes(): what is rarely to be done. */
void end_instruction(const struct cpu *cpu);

/* Moves the guest past the instruction of `length` bytes that exited, as if it had retired: STI and
 * MOV-SS blocking end, RFLAGS.RF is cleared, and a single step (RFLAGS.TF) traps after it, unless
 * IA32_DEBUGCTL.BTF makes only branches do so.
 * SDM Vol. 3, "Guest Non-Register State", "Saving Non-Register State"; "System Flags and Fields in
 * the EFLAGS Register". */
static inline void skip_bytes(const struct cpu *cpu, uint32_t length)
{
    vmcs_write_natural(VMCS_GUEST_RIP, vmcs_read_natural(VMCS_GUEST_RIP) + length);
    if (__builtin_expect((cpu->blocking & BLOCKING_ENDS_BEHIND) != 0, 0) ||
        __builtin_expect((vmcs_read_natural(VMCS_GUEST_RFLAGS) & (RFLAGS_TF | RFLAGS_RF)) != 0, 0))
        end_instruction(cpu);
}

/* The same for an exit that tells the length: those that an instruction itself causes. */
static inline void skip_instruction(const struct cpu *cpu)
{
    skip_bytes(cpu, vmcs_read_32(VMCS_EXIT_INSTRUCTION_LENGTH));
}

/* The guest executes the instruction that exited once more, in the shadow of STI or MOV SS that it
 * had. SDM Vol. 3, "Saving RIP, RSP, RFLAGS, and SSP", footnote: an exit that the instruction
 * itself causes saves RF as 0, and its breakpoint, which came before the exit, would come again;
 * "Checks on Guest Non-Register State": in a shadow a single step has to be pending. */
void execute_again(void);
/* After an EPT violation between two instructions: the guest executes the next one, whose
 * breakpoint has not come. Such an exit saves RF as 1; in the delivery of an event, as the event's
 * frame has it. SDM Vol. 3, "Saving RIP, RSP, RFLAGS, and SSP". */
void execute_next(void);

/* The next entry delivers this event, which the guest's own processor had begun to deliver: as an
 * exit's interruption information or IDT-vectoring information says, and with this error code. */
void inject_event(uint32_t information, uint32_t error_code);
/* The event whose delivery an exit broke off, by its IDT-vectoring information. */
void deliver_again(struct cpu *cpu, uint32_t vectoring);

/* Data breakpoints (or I/O breakpoints, where CR4.DE allows them) on what an instruction has
 * accessed that root mode completes: they trap behind it. `kinds`: a bit for each value of DR7's
 * R/W fields. SDM Vol. 3, "Debug Registers"; "Pending Debug Exceptions" in "Guest Non-Register
 * State". */
#define BREAKPOINTS_WRITE (BIT(1) | BIT(3))
#define BREAKPOINTS_READ BIT(3)
#define BREAKPOINTS_PORT BIT(2)
void meet_breakpoints(uint64_t address, unsigned bytes, uint64_t kinds);

/* The guest takes this exception at the instruction that exited. */
void inject_gp(void); /* #GP(0) */
void inject_df(void); /* #DF(0) */
void inject_ud(void); /* #UD */
/* #GP, or what becomes of it where an event was being delivered. Gives its name. */
const char *inject_refusal(struct cpu *cpu);

static inline uint32_t interruption_type(uint32_t information)
{
    return (information & INTERRUPTION_TYPE) >> INTERRUPTION_TYPE_SHIFT;
}

/* ---- what a #GP becomes that is raised while another event is being delivered. Pure. SDM Vol. 3,
 * "Interrupt 8 - Double Fault Exception (#DF)", the tables of exception classes; "Information for
 * VM Exits That Occur During Event Delivery". ---- */

/* Exceptions that make a double fault with a following #GP: contributory ones and page faults. */
#define MAKES_DOUBLE_FAULT                                                                         \
    (BIT(VECTOR_DE) | BIT(VECTOR_TS) | BIT(VECTOR_NP) | BIT(VECTOR_SS) | BIT(VECTOR_GP) |          \
     BIT(VECTOR_PF) | BIT(VECTOR_VE) | BIT(VECTOR_CP))

enum delivery_fault { DELIVERY_GP, DELIVERY_DOUBLE_FAULT, DELIVERY_SHUTDOWN };

/* `vectoring` is the IDT-vectoring information of the exit. An NMI, an interrupt, INT n or a benign
 * exception whose delivery faults is gone, as it is without VMX: the guest gets the #GP alone. */
static inline enum delivery_fault delivery_fault(uint32_t vectoring)
{
    uint32_t vector = vectoring & (uint32_t)INTERRUPTION_VECTOR;

    if (!(vectoring & INTERRUPTION_VALID) ||
        interruption_type(vectoring) != INTERRUPTION_TYPE_HARDWARE_EXCEPTION)
        return DELIVERY_GP;
    if (vector == VECTOR_DF)
        return DELIVERY_SHUTDOWN;
    return vector < 32 && BIT(vector) & MAKES_DOUBLE_FAULT ? DELIVERY_DOUBLE_FAULT : DELIVERY_GP;
}
