/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The decoder: prefixes, opcode, ModRM with SIB and displacement, immediate. Only lengths matter of
 * the address bytes: where the access goes is known from the exit.
 * SDM Vol. 2, "Instruction Format", "ModR/M and SIB Bytes", "REX Prefixes".
 */
#include "decode.h"

#include "bits.h"

#define PREFIX_OPERAND_SIZE 0x66
#define PREFIX_ADDRESS_SIZE 0x67
#define PREFIX_LOCK 0xf0
#define REX_FIRST 0x40
#define REX_LAST 0x4f
#define REX_W BIT(3)
#define REX_R BIT(2)

#define OPCODE_ALU_LAST 0x3f     /* 8 operations, 8 opcodes each */
#define OPCODE_ALU_FORM 7
#define ALU_FORM_MEMORY_REGISTER 1
#define ALU_FORM_REGISTER_MEMORY 3
#define OPCODE_GROUP_1_IMM32 0x81
#define OPCODE_GROUP_1_IMM8 0x83
#define OPCODE_TEST 0x85
#define OPCODE_XCHG 0x87
#define OPCODE_MOV_STORE 0x89
#define OPCODE_MOV_LOAD 0x8b
#define OPCODE_MOV_LOAD_OFFSET 0xa1  /* EAX, address in the instruction */
#define OPCODE_MOV_STORE_OFFSET 0xa3
#define OPCODE_GROUP_11_MOV 0xc7
#define OPCODE_GROUP_3 0xf7

#define MOD_SHIFT 6
#define MOD_REGISTER 3
#define RM_MASK 7
#define RM_SIB 4
#define RM_DISPLACEMENT_32 5 /* with mod 0 */
#define RM_DISPLACEMENT_16 6 /* with mod 0, 16-bit addressing */
#define SIB_BASE_MASK 7
#define SIB_BASE_NONE 5 /* with mod 0: a 32-bit displacement instead */
#define REG_SHIFT 3
#define REG_MASK 7
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

/* Gives the opcode. LOCK changes nothing here, and where it is not allowed the processor raised #UD
 * before any access; segment prefixes moved the address, which is known. */
static uint8_t prefixes(struct cursor *c, enum code_size size, struct prefixes *p)
{
    *p = (struct prefixes){false, false, 0};
    for (;;) {
        uint8_t byte = next(c);
        switch (byte) {
        case PREFIX_OPERAND_SIZE:
            p->operand_size = true;
            break;
        case PREFIX_ADDRESS_SIZE:
            p->address_size = true;
            break;
        case 0x26: /* ES, CS, SS, DS, FS, GS */
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0x64:
        case 0x65:
        case PREFIX_LOCK:
            break;
        default:
            if (size != CODE_64 || byte < REX_FIRST || byte > REX_LAST)
                return byte;
            /* REX counts only directly before the opcode. */
            p->rex = byte;
            continue;
        }
        p->rex = 0;
    }
}

/* Passes over ModRM, SIB and displacement. Gives the reg field; false: no operand in memory. */
static bool modrm(struct cursor *c, bool addresses_16, uint8_t *reg)
{
    uint8_t byte = next(c);
    uint8_t mod = byte >> MOD_SHIFT, rm = byte & RM_MASK;

    *reg = byte >> REG_SHIFT & REG_MASK;
    if (mod == MOD_REGISTER)
        return false;
    if (addresses_16) {
        skip(c, mod == 1 ? 1 : mod == 2 || rm == RM_DISPLACEMENT_16 ? 2 : 0);
        return true;
    }
    bool no_base = rm == RM_DISPLACEMENT_32;
    if (rm == RM_SIB)
        no_base = (next(c) & SIB_BASE_MASK) == SIB_BASE_NONE;
    skip(c, mod == 1 ? 1 : mod == 2 || no_base ? 4 : 0);
    return true;
}

/* MOV between EAX and an address that is in the instruction, as long as addresses are. */
static void decode_offset(struct cursor *c, enum code_size size, const struct prefixes *p,
                          struct instruction *out)
{
    static const uint8_t address_bytes[][2] = {[CODE_16] = {2, 4}, [CODE_32] = {4, 2},
                                               [CODE_64] = {8, 4}};

    skip(c, address_bytes[size][p->address_size]);
    out->operation = OPERATION_MOV;
}

/* Opcodes with ModRM whose other operand is the reg field's register. */
static bool register_form(uint8_t opcode, struct instruction *out)
{
    switch (opcode) {
    case OPCODE_TEST:
        out->operation = OPERATION_TEST;
        out->memory_first = true;
        return true;
    case OPCODE_XCHG:
        out->operation = OPERATION_XCHG;
        out->memory_first = true;
        return true;
    case OPCODE_MOV_STORE:
    case OPCODE_MOV_LOAD:
        out->operation = OPERATION_MOV;
        out->memory_first = opcode == OPCODE_MOV_STORE;
        return true;
    default:
        break;
    }
    uint8_t form = opcode & OPCODE_ALU_FORM, number = opcode >> 3;
    if (opcode > OPCODE_ALU_LAST || number == 2 || number == 3 ||
        (form != ALU_FORM_MEMORY_REGISTER && form != ALU_FORM_REGISTER_MEMORY))
        return false;
    out->operation = (enum operation)number;
    out->memory_first = form == ALU_FORM_MEMORY_REGISTER;
    return true;
}

/* Opcodes whose reg field says which operation, and whose other operand is an immediate. Gives the
 * immediate's bytes, 0 for none of them. */
static unsigned immediate_form(uint8_t opcode, uint8_t reg, struct instruction *out)
{
    out->has_immediate = out->memory_first = true;
    switch (opcode) {
    case OPCODE_GROUP_1_IMM32:
    case OPCODE_GROUP_1_IMM8:
        out->operation = (enum operation)reg;
        return reg == 2 || reg == 3 ? 0 : opcode == OPCODE_GROUP_1_IMM8 ? 1 : 4;
    case OPCODE_GROUP_3:
        out->operation = OPERATION_TEST;
        return reg <= 1 ? 4 : 0;
    case OPCODE_GROUP_11_MOV:
        out->operation = OPERATION_MOV;
        return reg == 0 ? 4 : 0;
    default:
        return 0;
    }
}

static bool decode_form(struct cursor *c, enum code_size size, struct instruction *out)
{
    struct prefixes p;
    uint8_t opcode = prefixes(c, size, &p), reg;

    /* 32-bit operands alone: the default but for 16-bit code, where the prefix makes them so. */
    if (p.operand_size != (size == CODE_16) || p.rex & REX_W)
        return false;
    if (opcode == OPCODE_MOV_LOAD_OFFSET || opcode == OPCODE_MOV_STORE_OFFSET) {
        decode_offset(c, size, &p, out);
        out->memory_first = opcode == OPCODE_MOV_STORE_OFFSET;
        return true;
    }
    if (register_form(opcode, out)) {
        bool in_memory = modrm(c, (size == CODE_16) != (size != CODE_64 && p.address_size), &reg);
        out->reg = (uint8_t)(reg + (p.rex & REX_R ? REG_REX_R : 0));
        return in_memory;
    }
    if (opcode != OPCODE_GROUP_1_IMM32 && opcode != OPCODE_GROUP_1_IMM8 &&
        opcode != OPCODE_GROUP_3 && opcode != OPCODE_GROUP_11_MOV)
        return false;
    if (!modrm(c, (size == CODE_16) != (size != CODE_64 && p.address_size), &reg))
        return false;
    unsigned bytes = immediate_form(opcode, reg, out);
    out->immediate = immediate(c, bytes);
    return bytes != 0;
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
