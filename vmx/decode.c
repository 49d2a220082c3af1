/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The decoder: prefixes, opcode, ModRM with SIB and displacement, immediate. Only lengths matter of
 * the address bytes: where the access goes is known from the exit. And what the instructions do.
 * SDM Vol. 2, "Instruction Format", "ModR/M and SIB Bytes", "REX Prefixes"; Vol. 1, "Status Flags".
 */
#include "decode.h"

#include "x86.h"

#define PREFIX_OPERAND_SIZE 0x66
#define PREFIX_ADDRESS_SIZE 0x67
#define PREFIX_LOCK 0xf0
#define REX 0x40 /* .. 0x4f */
#define REX_W BIT(3)
#define REX_R BIT(2)

#define MOD_SHIFT 6
#define MOD_REGISTER 3
#define RM_MASK 7
#define RM_SIB 4
#define RM_DISPLACEMENT_32 5 /* with mod 0; as a SIB's base too */
#define RM_DISPLACEMENT_16 6 /* with mod 0, 16-bit addressing */
#define REG_SHIFT 3
#define REG_REX_R 8

struct cursor {
    const uint8_t *bytes;
    unsigned count, at;
    bool ended; /* asked for more than there is */
};

struct prefixes {
    bool operand_size, address_size;
    uint8_t rex;
};

#define GROUP_1 0xff /* the reg field is the operation: all but ADC and SBB */
enum other { REGISTER, IMMEDIATE, EAX_OFFSET }; /* the other operand; EAX_OFFSET: without ModRM */

static const struct form {
    uint8_t opcode, operation;
    bool memory_first;
    enum other other;
    uint8_t immediate_bytes;
    uint8_t regs; /* values of the reg field that are this instruction, with an immediate */
} forms[] = {
    {0x01, OPERATION_ADD, true, REGISTER, 0, 0},    {0x03, OPERATION_ADD, false, REGISTER, 0, 0},
    {0x09, OPERATION_OR, true, REGISTER, 0, 0},     {0x0b, OPERATION_OR, false, REGISTER, 0, 0},
    {0x21, OPERATION_AND, true, REGISTER, 0, 0},    {0x23, OPERATION_AND, false, REGISTER, 0, 0},
    {0x29, OPERATION_SUB, true, REGISTER, 0, 0},    {0x2b, OPERATION_SUB, false, REGISTER, 0, 0},
    {0x31, OPERATION_XOR, true, REGISTER, 0, 0},    {0x33, OPERATION_XOR, false, REGISTER, 0, 0},
    {0x39, OPERATION_CMP, true, REGISTER, 0, 0},    {0x3b, OPERATION_CMP, false, REGISTER, 0, 0},
    {0x81, GROUP_1, true, IMMEDIATE, 4, 0xf3},      {0x83, GROUP_1, true, IMMEDIATE, 1, 0xf3},
    {0x85, OPERATION_TEST, true, REGISTER, 0, 0},   {0x87, OPERATION_XCHG, true, REGISTER, 0, 0},
    {0x89, OPERATION_MOV, true, REGISTER, 0, 0},    {0x8b, OPERATION_MOV, false, REGISTER, 0, 0},
    {0xa1, OPERATION_MOV, false, EAX_OFFSET, 0, 0}, {0xa3, OPERATION_MOV, true, EAX_OFFSET, 0, 0},
    {0xc7, OPERATION_MOV, true, IMMEDIATE, 4, 0x1}, {0xf7, OPERATION_TEST, true, IMMEDIATE, 4, 0x3},
};

static uint8_t next(struct cursor *c)
{
    if (c->at < c->count)
        return c->bytes[c->at++];
    c->ended = true;
    return 0;
}

static void skip(struct cursor *c, unsigned bytes)
{
    while (bytes-- != 0)
        (void)next(c);
}

static uint32_t immediate(struct cursor *c, unsigned bytes)
{
    uint32_t value = 0;

    if (bytes == 1)
        return (uint32_t)(int8_t)next(c);
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint32_t)next(c) << 8 * i;
    return value;
}

/* LOCK changes nothing here, and where it is not allowed the processor raised #UD before any
 * access; segment prefixes moved the address, which is known. */
static bool without_effect(uint8_t byte)
{
    return (byte & 0xe7) == 0x26 /* ES, CS, SS, DS */ || (byte & 0xfe) == 0x64 /* FS, GS */ ||
           byte == PREFIX_LOCK;
}

/* Gives the opcode. */
static uint8_t prefixes(struct cursor *c, enum code_size size, struct prefixes *p)
{
    *p = (struct prefixes){false, false, 0};
    for (;;) {
        uint8_t byte = next(c);
        bool rex = size == CODE_64 && (byte & 0xf0) == REX;

        if (byte == PREFIX_OPERAND_SIZE)
            p->operand_size = true;
        else if (byte == PREFIX_ADDRESS_SIZE)
            p->address_size = true;
        else if (!rex && !without_effect(byte))
            return byte;
        p->rex = rex ? byte : 0; /* it counts only directly before the opcode */
    }
}

/* Passes over ModRM, SIB and displacement. Gives the reg field; false: no operand in memory. */
static bool modrm(struct cursor *c, bool addresses_16, uint8_t *reg)
{
    uint8_t byte = next(c);
    uint8_t mod = byte >> MOD_SHIFT, base = byte & RM_MASK;

    *reg = byte >> REG_SHIFT & RM_MASK;
    if (!addresses_16 && base == RM_SIB && mod != MOD_REGISTER)
        base = next(c) & RM_MASK;
    bool no_base = mod == 0 && base == (addresses_16 ? RM_DISPLACEMENT_16 : RM_DISPLACEMENT_32);
    skip(c, mod == 1 ? 1 : mod == 2 || no_base ? (addresses_16 ? 2 : 4) : 0);
    return mod != MOD_REGISTER;
}

static bool decode_form(struct cursor *c, enum code_size size, struct instruction *out)
{
    static const uint8_t offset_bytes[][2] = {[CODE_16] = {2, 4}, [CODE_32] = {4, 2},
                                              [CODE_64] = {8, 4}};
    struct prefixes p;
    uint8_t opcode = prefixes(c, size, &p), reg = 0;
    const struct form *f = forms;

    while (f < forms + LENGTH_OF(forms) && f->opcode != opcode)
        f++;
    /* 32-bit operands alone: the default but for 16-bit code, where the prefix makes them so. */
    if (f == forms + LENGTH_OF(forms) || p.operand_size != (size == CODE_16) ||
        p.rex & REX_W)
        return false;
    if (f->other == EAX_OFFSET)
        skip(c, offset_bytes[size][p.address_size]);
    else if (!modrm(c, (size == CODE_16) != (size != CODE_64 && p.address_size), &reg))
        return false;
    if (f->other == IMMEDIATE && !(f->regs & BIT(reg)))
        return false;
    out->memory_first = f->memory_first;
    out->operation = (enum operation)(f->operation == GROUP_1 ? reg : f->operation);
    out->has_immediate = f->other == IMMEDIATE;
    out->immediate = immediate(c, f->immediate_bytes);
    if (f->other == REGISTER)
        out->reg = (uint8_t)(reg + (p.rex & REX_R ? REG_REX_R : 0));
    return true;
}

enum decode_result decode(const uint8_t *bytes, unsigned count, enum code_size size,
                          struct instruction *out)
{
    struct cursor c = {.bytes = bytes, .count = count};

    *out = (struct instruction){0};
    bool known = decode_form(&c, size, out);
    if (c.ended)
        return DECODE_SHORT;
    out->length = (uint8_t)c.at;
    return known ? DECODE_DONE : DECODE_UNKNOWN;
}

/* ---- what they do ---- */

#define LAHF_FLAGS (RFLAGS_SF | RFLAGS_ZF | RFLAGS_AF | RFLAGS_PF | RFLAGS_CF)
/* Result and flags are the processor's own: AH gets the lower status flags, AL OF. */
#define OPERATE(instruction)                                                                       \
    __asm__(instruction " %2, %0\n\tlahf\n\tseto %%al"                                            \
            : "+r"(result), "=&a"(ax) : "r"(second) : "cc")

struct effect execute(const struct instruction *i, uint32_t memory, uint32_t reg, uint64_t *rflags)
{
    uint32_t other = i->has_immediate ? i->immediate : reg, ax = 0;
    uint32_t result = i->memory_first ? memory : other, second = i->memory_first ? other : memory;
    bool writes = i->operation != OPERATION_CMP && i->operation != OPERATION_TEST;

    switch (i->operation) {
    case OPERATION_ADD:
        OPERATE("addl");
        break;
    case OPERATION_OR:
        OPERATE("orl");
        break;
    case OPERATION_AND:
    case OPERATION_TEST:
        OPERATE("andl");
        break;
    case OPERATION_SUB:
    case OPERATION_CMP:
        OPERATE("subl");
        break;
    case OPERATION_XOR:
        OPERATE("xorl");
        break;
    case OPERATION_MOV:
        return (struct effect){i->memory_first, !i->memory_first, second, second};
    case OPERATION_XCHG:
        return (struct effect){true, true, reg, memory};
    }
    *rflags = (*rflags & ~(LAHF_FLAGS | RFLAGS_OF)) | (ax >> 8 & LAHF_FLAGS) |
              (ax & 1 ? RFLAGS_OF : 0);
    return (struct effect){writes && i->memory_first, writes && !i->memory_first, result, result};
}
