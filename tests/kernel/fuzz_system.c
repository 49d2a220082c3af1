/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operations of the fuzzer on what exits by itself: hypercalls, VMX and other system instructions,
 * MONITOR and MWAIT, NMIs and interrupts that the processor sends to itself.
 * SDM Vol. 3, "Instructions That Cause VM Exits", "Interrupt Command Register (ICR)".
 */
#include "fuzz.h"

#include <string.h>

#include "hypercall.h"
#include "kernel.h"
#include "tests/hooks/hooks.h"

#define WORK_BRANCHES_MAX 1000 /* host work is done as long as it is asked for */
#define WORK_ALLOWED (1ULL << 40)
#define LOG_BYTES_MAX 32

#define ICR_LOW_PAGE 0xfee00300u
#define SPIN_BEFORE_RESULT 10000000u
#define OPERAND_BYTES 64  /* in memory, of any of the instructions */
#define VECTOR_FIRST 0x60 /* of interrupts that the processor sends to itself */

/* Offered numbers most of the time, with arguments around what they take. The numbers that follow
 * are experiments': what those answer depends on options, and their own tests look at it. */
static uint64_t pick_hypercall(struct fuzz_op *op)
{
    const uint64_t offered = HYPERCALL_HOST_WORK - HYPERCALL_NMI_PASSTHROUGH_ON + 1;
    uint64_t number;

    if (fuzz_chance(op, 60))
        return HYPERCALL_NMI_PASSTHROUGH_ON + fuzz_below(op, offered);
    /* The test build's, which this one must not have. */
    if (fuzz_chance(op, 30))
        return HYPERCALL_TEST_REQUEST_WORD + fuzz_below(op, 8);
    number = fuzz_number(op);
    return (uint32_t)number > HYPERCALL_HOST_WORK && (uint32_t)number < HYPERCALL_TEST_REQUEST_WORD
               ? 0
               : number;
}

static bool answer_is_right(const struct fuzz_op *op, uint64_t number, int64_t result)
{
    if (op->cpl != 0)
        return result == HYPERCALL_E_PERMISSION;
    switch (number) {
    case HYPERCALL_NMI_PASSTHROUGH_ON:
    case HYPERCALL_NMI_PASSTHROUGH_OFF:
        return result == 0 || result == HYPERCALL_E_SUPPORT;
    case HYPERCALL_UNKNOWN_NMI:
        return result >= 0;
    case HYPERCALL_STATISTICS:
        return result >= 0 || result == HYPERCALL_E_ARGUMENT;
    case HYPERCALL_LOG:
        return result >= 0 && result <= LOG_BYTES_MAX;
    case HYPERCALL_HOST_WORK:
        return result >= 0 || result == HYPERCALL_E_ARGUMENT || result == HYPERCALL_E_STATE;
    default:
        return result == HYPERCALL_E_NUMBER;
    }
}

/* Registers that a call of this number may change besides RAX. */
static bool may_change(uint64_t number, unsigned reg)
{
    if (number == HYPERCALL_LOG)
        return reg == RBX || reg == RCX || reg == RDX || reg == RSI || reg == RDI;
    return number == HYPERCALL_HOST_WORK && (reg == RBX || reg == RCX);
}

/* Natively #UD (fuzz_differ.c makes of it what is wanted here: done, and every answer right). */
void fuzz_hypercall(struct fuzz_op *op)
{
    uint64_t number = pick_hypercall(op);

    op->subject = number;
    fuzz_level(op, true);
    fuzz_begin(op);
    fuzz_in.gpr[RAX] = op->code_32 ? (uint32_t)number : number;
    fuzz_in.gpr[RBX] = fuzz_number(op);
    fuzz_in.gpr[RCX] = fuzz_number(op);
    fuzz_in.gpr[RDX] = fuzz_number(op);
    if (fuzz_in.gpr[RBX] > WORK_BRANCHES_MAX && fuzz_in.gpr[RBX] <= WORK_ALLOWED)
        fuzz_in.gpr[RBX] %= WORK_BRANCHES_MAX;
    op->detail = fuzz_in.gpr[RBX];
    number = fuzz_in.gpr[RAX];
    CODE(op, 0x0f, 0x01, 0xc1);
    bool done = fuzz_go(op);
    fuzz_keep(op, false);
    op->others = op->others_before; /* what may change is looked at here */
    if (!done)
        return;
    op->value[0] = answer_is_right(op, number, (int64_t)fuzz_out.gpr[RAX]);
    if (op->value[0] == 0)
        op->value[2] = fuzz_out.gpr[RAX];
    for (unsigned i = RCX; i < 16; i++)
        if (i != RSP && fuzz_out.gpr[i] != fuzz_in.gpr[i] && !may_change(number, i))
            op->value[1] |= BIT(i);
}

struct instruction_bytes {
    uint8_t length, bytes[5];
};

static void one_of(struct fuzz_op *op, const struct instruction_bytes *list, unsigned count,
                   bool may_be_32)
{
    const struct instruction_bytes *i = &list[fuzz_below(op, count)];

    op->subject = (uint64_t)(i - list);
    memset(fuzz_data, 0, OPERAND_BYTES);
    fuzz_level(op, may_be_32);
    fuzz_begin(op);
    fuzz_code(op, i->length, i->bytes);
    (void)fuzz_go(op);
    fuzz_keep(op, true);
}

void fuzz_vmx(struct fuzz_op *op)
{
    /* Operands in memory are at RDI, others in registers. */
    static const struct instruction_bytes list[] = {
        {3, {0x0f, 0x01, 0xc2}},             /* VMLAUNCH */
        {3, {0x0f, 0x01, 0xc3}},             /* VMRESUME */
        {3, {0x0f, 0x01, 0xc4}},             /* VMXOFF */
        {3, {0x0f, 0x01, 0xd4}},             /* VMFUNC */
        {3, {0x0f, 0xc7, 0x37}},             /* VMPTRLD */
        {4, {0x66, 0x0f, 0xc7, 0x37}},       /* VMCLEAR */
        {4, {0xf3, 0x0f, 0xc7, 0x37}},       /* VMXON */
        {3, {0x0f, 0xc7, 0x3f}},             /* VMPTRST */
        {3, {0x0f, 0x78, 0xc3}},             /* VMREAD */
        {3, {0x0f, 0x78, 0x07}},             /* VMREAD to memory */
        {3, {0x0f, 0x79, 0xc3}},             /* VMWRITE */
        {3, {0x0f, 0x79, 0x07}},             /* VMWRITE from memory */
        {5, {0x66, 0x0f, 0x38, 0x80, 0x07}}, /* INVEPT */
        {5, {0x66, 0x0f, 0x38, 0x81, 0x07}}, /* INVVPID */
        {3, {0x0f, 0x01, 0xd9}},             /* VMMCALL, another vendor's */
        {4, {0x66, 0x0f, 0x01, 0xcf}},       /* SEAMCALL */
        {4, {0x66, 0x0f, 0x01, 0xcc}},       /* TDCALL */
    };

    one_of(op, list, LENGTH_OF(list), true);
}

void fuzz_system(struct fuzz_op *op)
{
    static const struct instruction_bytes list[] = {
        {2, {0x0f, 0x08}},                   /* INVD */
        {2, {0x0f, 0x09}},                   /* WBINVD */
        {3, {0xf3, 0x0f, 0x09}},             /* WBNOINVD */
        {2, {0x0f, 0x37}},                   /* GETSEC */
        {2, {0x0f, 0xaa}},                   /* RSM */
        {3, {0x0f, 0x01, 0x3f}},             /* INVLPG */
        {5, {0x66, 0x0f, 0x38, 0x82, 0x07}}, /* INVPCID */
        {3, {0x0f, 0x01, 0xcf}},             /* ENCLS */
        {3, {0x0f, 0x01, 0xd7}},             /* ENCLU */
        {3, {0x0f, 0x01, 0xc0}},             /* ENCLV */
        {3, {0x0f, 0x01, 0xc5}},             /* PCONFIG */
        {3, {0x0f, 0x01, 0xc6}},             /* WRMSRNS */
        {3, {0x0f, 0x01, 0x07}},             /* SGDT */
        {3, {0x0f, 0x01, 0x0f}},             /* SIDT */
        {3, {0x0f, 0x00, 0xc0}},             /* SLDT EAX */
        {3, {0x0f, 0x00, 0xc8}},             /* STR EAX */
        {2, {0x0f, 0x05}},                   /* SYSCALL */
        {2, {0x0f, 0x34}},                   /* SYSENTER */
        {2, {0x0f, 0x35}},                   /* SYSEXIT */
        {2, {0x0f, 0x0b}},                   /* UD2 */
        {1, {0xf1}},                         /* INT1 */
        {1, {0xcc}},                         /* INT3 */
        {1, {0xfa}},                         /* CLI */
        {1, {0xfb}},                         /* STI */
        {2, {0xf3, 0x90}},                   /* PAUSE */
        {2, {0x0f, 0x31}},                   /* RDTSC */
    };

    one_of(op, list, LENGTH_OF(list), true);
    if (op->code[0] == 0x0f && op->code[1] == 0x31 && op->vector == FUZZ_DONE)
        op->value[RAX] = op->value[RDX] = 0; /* time */
}

/* 0F 01 with a register as operand: whatever an extension has put there. */
void fuzz_group7(struct fuzz_op *op)
{
    uint8_t modrm;

    do {
        modrm = (uint8_t)(0xc0 | fuzz_below(op, 64));
        /* VMCALL, MONITOR, MWAIT, RDTSCP, XSETBV, MONITORX, MWAITX: these have operations of their
         * own, or halt, or read the time, or are not undone. */
    } while (modrm == 0xc1 || modrm == 0xc8 || modrm == 0xc9 || modrm == 0xf9 || modrm == 0xd1 ||
             modrm == 0xfa || modrm == 0xfb);
    op->subject = modrm;
    fuzz_level(op, true);
    fuzz_begin(op);
    CODE(op, 0x0f, 0x01, modrm);
    (void)fuzz_go(op);
    fuzz_keep(op, true);
}

/* MONITOR, a store to the monitored line, MWAIT: it does not wait. */
void fuzz_mwait(struct fuzz_op *op)
{
    bool only_monitor = fuzz_chance(op, 40);

    op->subject = only_monitor;
    fuzz_level(op, false);
    fuzz_begin(op);
    fuzz_in.gpr[RAX] = fuzz_data_address(op);
    fuzz_in.gpr[RCX] = fuzz_chance(op, 70) ? 0 : fuzz_number(op);
    fuzz_in.gpr[RDX] = 0;
    op->detail = fuzz_in.gpr[RCX];
    CODE(op, 0x0f, 0x01, 0xc8, 0xc6, 0x07, 0x00); /* MONITOR; MOV BYTE [RDI], 0 */
    if (!only_monitor)
        CODE(op, 0x0f, 0x01, 0xc9);
    (void)fuzz_go(op);
    fuzz_keep(op, true);
    *(volatile uint8_t *)fuzz_data = 0;
}

/* Code that writes the ICR's low half, in the mode that the APIC is in. */
static void send(struct fuzz_op *op, uint32_t command)
{
    fuzz_in.gpr[RAX] = command;
    if (apic_x2()) {
        fuzz_in.gpr[RCX] = X2APIC_ICR;
        fuzz_in.gpr[RDX] = (uint64_t)rdmsr(IA32_X2APIC_APICID);
        CODE(op, 0x0f, 0x30);
    } else {
        fuzz_in.gpr[RDI] = ICR_LOW_PAGE;
        CODE(op, 0x89, 0x07); /* MOV [RDI], EAX */
    }
}

void fuzz_nmi(struct fuzz_op *op)
{
    bool exits = fuzz_chance(op, 50);

    fuzz_level(op, false);
    fuzz_begin(op);
    if (fuzz_chance(op, 30))
        fuzz_in.rflags |= RFLAGS_IF;
    /* An NMI knows no shorthand: fuzz_setup() has left this processor in the ICR's high half. */
    send(op, ICR_NMI | ICR_ASSERT);
    if (exits)
        CODE(op, 0x31, 0xc0, 0x0f, 0xa2); /* XOR EAX, EAX; CPUID */
    CODE(op, 0x90, 0x90);
    (void)fuzz_go(op);
    fuzz_keep(op, false);
    /* The emulator sets it in what an exit for an NMI saves (testbed/README.md). */
    op->rflags &= ~RFLAGS_RF;
}

void fuzz_ipi(struct fuzz_op *op)
{
    uint32_t vector = VECTOR_FIRST + (uint32_t)fuzz_below(op, VECTORS - VECTOR_FIRST);
    unsigned wait = (unsigned)fuzz_below(op, 3);
    bool enabled = fuzz_chance(op, 50);

    op->subject = vector;
    op->detail = wait;
    fuzz_level(op, false);
    fuzz_begin(op);
    if (enabled)
        fuzz_in.rflags |= RFLAGS_IF;
    send(op, vector | ICR_ASSERT | ICR_SELF);
    /* With interrupts off it pends, and ends the halt. */
    if (wait == 1 && !enabled && op->cpl == 0)
        CODE(op, 0xfb, 0xf4); /* STI; HLT */
    else if (wait == 2)
        CODE(op, 0x31, 0xc0, 0x0f, 0xa2); /* XOR EAX, EAX; CPUID */
    CODE(op, 0x90, 0x90);
    (void)fuzz_go(op);
    fuzz_keep(op, false);
    uint64_t taken = fuzz_out.vector == vector;
    if (!taken) {
        struct fuzz_op drain = {.cpl = 0};
        fuzz_begin(&drain);
        fuzz_in.rflags |= RFLAGS_IF;
        CODE(&drain, 0x90, 0x90);
        (void)fuzz_go(&drain);
        taken = fuzz_out.vector == vector ? 2 : 0;
    }
    op->value[0] = taken;
    if (taken != 0)
        apic_eoi();
}

/* `fuzz-last:init`, `fuzz-last:shutdown`: these reset the machine, so nothing comes behind them. */
void test_fuzz_last(const struct job *job)
{
    if (job->word[0] == 'i')
        apic_send(apic_id(), ICR_INIT | ICR_ASSERT);
    else
        shut_down();
    linger(SPIN_BEFORE_RESULT);
    tap_result(false, job->name, "the machine was not reset");
}
