/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Parts of sequences that change what comes when: shadows of MOV SS and STI, RFLAGS, debug
 * registers, branches, returns, changes between code of 64, 32 and 16 bits, and what raises.
 * SDM Vol. 3, "Masking Exceptions and Interrupts When Switching Stacks", "Debug Registers"; Vol. 2,
 * "IRET/IRETD/IRETQ", "JMP".
 */
#include "sequence.h"

#include <string.h>

#define DR7_FIXED 0x700u

/* A VM entry wants the single step of TF to be pending in this shadow (SDM Vol. 3, "Checks on Guest
 * Non-Register State"), and INT n, which would forget it natively, does not: so a load of SS that a
 * trace steps is followed by another instruction. */
static void after_stepped(struct sequence *s) { PUT(s, 0, 0x90); }

/* Otherwise also by what carries a data breakpoint that waits into its handler: INT3, INT n,
 * SYSCALL. */
static void after_loaded(struct sequence *s)
{
    uint64_t way = s->variant & SEQUENCE_STEPPED ? 0 : sequence_below(s, 5);

    if (way == 1)
        PUT(s, 0, 0xcc);
    else if (way == 2)
        PUT(s, 0, 0xcd, FUZZ_DONE + 2);
    else if (way == 3 && s->bits_now == 64)
        PUT(s, FAULT_ENDS, 0x0f, 0x05);
    else
        after_stepped(s);
}

/* The stack's own selector, by one of the ways that block behind. */
static void shadow_part(struct sequence *s)
{
    uint16_t selector = sequence_stack_selector(s);
    uint64_t way = sequence_below(s, s->bits_now == 64 ? 2 : 4);

    sequence_load(s, RBX, selector);
    switch (way) {
    case 0:
        PUT(s, 0, 0x8e, 0xd3); /* MOV SS, BX */
        break;
    case 1:
        sequence_load(s, RDI, sequence_hot(s));
        PUT(s, ADDRESS_32 | NARROW, 0x89, 0x1f); /* MOV [RDI], BX */
        PUT(s, ADDRESS_32, 0x8e, 0x17);          /* MOV SS, [RDI] */
        after_loaded(s);
        break;
    case 2:
        PUT(s, OPERAND_32, 0x53);
        PUT(s, OPERAND_32, 0x17); /* POP SS */
        after_stepped(s);
        break;
    default:
        PUT(s, OPERAND_32, 0x53);
        PUT(s, OPERAND_32, 0x54);                                /* PUSH ESP */
        PUT(s, ADDRESS_32 | OPERAND_32, 0x83, 0x04, 0x24, 8);    /* ADD [ESP], 8 */
        PUT(s, ADDRESS_32 | OPERAND_32, 0x0f, 0xb2, 0x24, 0x24); /* LSS ESP, [ESP] */
        after_stepped(s);
    }
}

static void flag_part(struct sequence *s)
{
    static const uint8_t opcodes[] = {0xfb, 0xfb, 0xfb, 0xfa, 0xfc, 0xfd};

    PUT(s, 0, SEQUENCE_PICK(s, opcodes));
}

/* AND or OR of RFLAGS on the stack. */
static void change_flags(struct sequence *s, bool set, uint32_t bits)
{
    uint32_t value = set ? bits : ~bits;

    PUT(s, OPERAND_32 | ADDRESS_32, 0x81, set ? 0x0c : 0x24, 0x24, (uint8_t)value,
        (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24));
}

static uint32_t some_flags(struct sequence *s)
{
    static const uint32_t bits[] = {
        RFLAGS_TF, RFLAGS_TF, RFLAGS_TF, RFLAGS_IF, RFLAGS_TF | RFLAGS_IF, RFLAGS_DF, RFLAGS_AC};

    return SEQUENCE_PICK(s, bits);
}

static void popf_part(struct sequence *s)
{
    PUT(s, OPERAND_32, 0x9c);
    change_flags(s, sequence_chance(s, 60), some_flags(s));
    PUT(s, OPERAND_32, 0x9d);
}

/* To the next instruction, with other flags, RF too. */
static void iret_part(struct sequence *s)
{
    bool set = sequence_chance(s, 60);
    uint32_t flags = sequence_chance(s, 40) ? RFLAGS_RF : some_flags(s);
    uint32_t target;
    unsigned at;

    if (s->bits_now == 16)
        return;
    if (s->bits_now == 64) {
        PUT(s, WIDE, 0x89, 0xe0); /* MOV RAX, RSP */
        PUT(s, 0, 0x6a, (uint8_t)sequence_stack_selector(s));
        PUT(s, 0, 0x50);
    }
    PUT(s, 0, 0x9c);
    change_flags(s, set, flags);
    PUT(s, 0, 0x6a, (uint8_t)sequence_code_selector(s, s->bits_now));
    sequence_load(s, RAX, 0);
    at = s->length - (unsigned)sizeof(target);
    PUT(s, 0, 0x50);
    PUT(s, WIDE | FAULT_ENDS, 0xcf);
    target = sequence_here(s, s->bits_now);
    memcpy(s->code + at, &target, sizeof(target));
}

static void dr_part(struct sequence *s)
{
    unsigned n = (unsigned)sequence_below(s, 4);
    uint32_t value = DR7_FIXED;

    switch (sequence_below(s, 4)) {
    case 0:
        sequence_load(s, RAX, DR7_FIXED); /* none is on */
        PUT(s, 0, 0x0f, 0x23, 0xf8);
        break;
    case 1: /* of 4 bytes that are written, or accessed */
        sequence_load(s, RAX, sequence_hot(s) & ~3u);
        PUT(s, 0, 0x0f, 0x23, (uint8_t)(0xc0 | n << 3));
        value |= 2u << 2 * n | (sequence_chance(s, 50) ? 0xdu : 0xfu) << (16 + 4 * n);
        sequence_load(s, RAX, value);
        PUT(s, 0, 0x0f, 0x23, 0xf8);
        break;
    case 2: { /* of an instruction that comes soon */
        PUT(s, 0, 0x0f, 0x21, (uint8_t)(0xc0 | n << 3));
        sequence_load(s, RAX, 0);
        unsigned at = s->length - 4;
        PUT(s, 0, 0x0f, 0x23, (uint8_t)(0xc0 | n << 3));
        sequence_load(s, RAX, value | 2u << 2 * n);
        PUT(s, 0, 0x0f, 0x23, 0xf8);
        for (uint64_t i = sequence_below(s, 3); i > 0; i--)
            PUT(s, 0, 0x90);
        uint32_t target = sequence_here(s, 64);
        memcpy(s->code + at, &target, sizeof(target));
        break;
    }
    default:
        PUT(s, 0, 0x0f, 0x21, 0xf0); /* MOV EAX, DR6 */
    }
}

static void raise_part(struct sequence *s)
{
    switch (sequence_below(s, 8)) {
    case 0:
        PUT(s, 0, 0xcc);
        break;
    case 1:
        PUT(s, 0, 0xf1);
        break;
    case 2:
        PUT(s, 0, 0x0f, 0x0b);
        break;
    case 3:
        sequence_load(s, RAX, WINDOW_NOTHING);
        PUT(s, ADDRESS_32, 0x8b, 0x00);
        break;
    case 4:
        PUT(s, OPERAND_32, 0x31, 0xc9);
        PUT(s, OPERAND_32, 0xf7, 0xf1); /* DIV ECX */
        break;
    default:
        PUT(s, 0, 0xcd, (uint8_t)(FUZZ_DONE + 1 + sequence_below(s, 16)));
    }
}

static void branch_part(struct sequence *s)
{
    switch (sequence_below(s, 6)) {
    case 0:
        PUT(s, 0, 0xeb, 1);
        PUT(s, 0, 0x90);
        break;
    case 1:
        PUT(s, 0, 0x70 | (uint8_t)sequence_below(s, 16), 2);
        PUT(s, 0, 0xb0, 7); /* MOV AL, 7 */
        break;
    case 2: /* CALL over a JMP to a RET, and back to that JMP */
        if (s->bits_now == 16)
            PUT(s, FAULT_ENDS, 0xe8, 2, 0);
        else
            PUT(s, FAULT_ENDS, 0xe8, 2, 0, 0, 0);
        PUT(s, 0, 0xeb, 1);
        PUT(s, FAULT_ENDS, 0xc3);
        break;
    case 3: /* three times round */
        sequence_load(s, RCX, 3);
        PUT(s, 0, 0x90);
        PUT(s, 0, 0xe2, 0xfd);
        break;
    case 4:
        sequence_load(s, RAX, sequence_here(s, s->bits_now) + (s->bits_now == 16 ? 8 : 7));
        PUT(s, FAULT_ENDS, 0xff, 0xe0); /* JMP RAX, to the next one */
        break;
    default:
        PUT(s, 0, 0x90);
        PUT(s, REP, 0x90);
    }
}

/* A far jump to the next instruction, and code of other bits from there on. */
static void bits_part(struct sequence *s)
{
    static const uint8_t all[] = {64, 64, 32, 16};
    unsigned to = SEQUENCE_PICK(s, all);
    uint16_t selector = sequence_code_selector(s, to);
    unsigned bytes = s->bits_now == 64 ? 6 : s->bits_now == 32 ? 7 : 8;
    uint32_t target = sequence_here(s, to) + bytes;

    if (s->far_bytes + 6 > sizeof(s->far))
        return;
    if (s->bits_now == 64) {
        uint32_t from_next = SEQUENCE_POOL + s->far_bytes - (s->length + bytes);
        memcpy(s->far + s->far_bytes, &target, sizeof(target));
        memcpy(s->far + s->far_bytes + sizeof(target), &selector, sizeof(selector));
        s->far_bytes += 6;
        PUT(s, FAULT_ENDS, 0xff, 0x2d, (uint8_t)from_next, (uint8_t)(from_next >> 8), 0, 0);
    } else {
        PUT(s, OPERAND_32 | FAULT_ENDS, 0xea, (uint8_t)target, (uint8_t)(target >> 8),
            (uint8_t)(target >> 16), (uint8_t)(target >> 24), (uint8_t)selector, 0);
    }
    s->bits_now = to;
}

const struct sequence_kind sequence_flows[] = {
    {"shadow", shadow_part, 80}, {"flag", flag_part, 40}, {"popf", popf_part, 50},
    {"iret", iret_part, 30},     {"dr", dr_part, 30},     {"raise", raise_part, 35},
    {"branch", branch_part, 50}, {"bits", bits_part, 25}, {NULL, NULL, 0},
};
