/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The decoder: prefixes, opcode, ModRM with SIB and displacement, immediate. Only the length of the
 * address bytes matters, because the exit has already reported the address.
 * SDM Vol. 2, "Instruction Format", "ModR/M and SIB Bytes", "REX Prefixes".
 */
#include "vmx/decode.h"

#include "x86.h"

#define PREFIX_ADDRESS_SIZE 0x67
#define PREFIX_LOCK 0xf0
#define REX 0x40 /* .. 0x4f */
#define REX_W BIT(3)
#define REX_R BIT(2)

#define OPCODE_XCHG 0x87
#define OPCODE_STORE 0x89
#define OPCODE_LOAD 0x8b
#define OPCODE_LOAD_OFFSET 0xa1 /* loads EAX from an address without ModRM */
#define OPCODE_STORE_OFFSET 0xa3
#define OPCODE_STORE_IMMEDIATE 0xc7 /* if the reg field is 0 */

#define MOD_SHIFT 6
#define MOD_REGISTER 3
#define RM_MASK 7
#define RM_SIB 4
#define RM_DISPLACEMENT_32 5 /* with mod 0; also as the base in a SIB */
#define REG_SHIFT 3
#define REG_REX_R 8

struct cursor {
    const uint8_t *bytes;
    unsigned count; /* length of `bytes` */
    unsigned at;    /* next byte to read; past `count` if the instruction is longer */
};

static uint8_t next_byte(struct cursor *c)
{
    unsigned at = c->at++;

    return at < c->count ? c->bytes[at] : 0;
}

static bool is_rex(uint8_t byte) { return (byte & 0xf0) == REX; }

/* Returns whether `byte` is a prefix that does not matter here. LOCK does not matter: if LOCK is
 * not allowed, the processor has raised #UD before any access. Segment and address-size prefixes
 * change only the address, which is known. (For a MOV without ModRM, the address-size prefix also
 * changes the length: see short_address.) */
static bool is_ignored_prefix(uint8_t byte)
{
    return (byte & 0xe7) == 0x26 /* ES, CS, SS, DS */ || (byte & 0xfe) == 0x64 /* FS, GS */ ||
           byte == PREFIX_ADDRESS_SIZE || byte == PREFIX_LOCK;
}

static bool decode_opcode_and_modrm(struct cursor *c, struct instruction *out)
{
    uint8_t opcode = 0, rex;
    bool short_address = false;

    do {
        rex = is_rex(opcode) ? opcode : 0; /* REX counts only directly before the opcode */
        opcode = next_byte(c);
        short_address |= opcode == PREFIX_ADDRESS_SIZE;
    } while (is_rex(opcode) || is_ignored_prefix(opcode));
    bool offset = opcode == OPCODE_LOAD_OFFSET || opcode == OPCODE_STORE_OFFSET;
    out->has_immediate = opcode == OPCODE_STORE_IMMEDIATE;
    out->loads = opcode == OPCODE_LOAD || opcode == OPCODE_XCHG || opcode == OPCODE_LOAD_OFFSET;
    out->stores = opcode == OPCODE_STORE || opcode == OPCODE_XCHG ||
                  opcode == OPCODE_STORE_OFFSET || out->has_immediate;
    if (rex & REX_W || (!out->loads && !out->stores))
        return false;
    if (offset) { /* the offset has the size of an address; SDM Vol. 2, "MOV" */
        c->at += short_address ? sizeof(uint32_t) : sizeof(uint64_t);
        return true; /* out->reg is RAX, whatever REX says */
    }

    uint8_t modrm = next_byte(c), mod = modrm >> MOD_SHIFT, base = modrm & RM_MASK;
    out->reg = modrm >> REG_SHIFT & RM_MASK;
    if (mod == MOD_REGISTER || (out->has_immediate && out->reg != 0))
        return false;
    if (base == RM_SIB)
        base = next_byte(c) & RM_MASK;
    c->at += mod == 1 ? 1 : mod == 2 || base == RM_DISPLACEMENT_32 ? sizeof(int32_t) : 0;
    for (unsigned i = 0; out->has_immediate && i < sizeof(out->immediate); i++)
        out->immediate |= (uint32_t)next_byte(c) << 8 * i;
    out->reg += rex & REX_R ? REG_REX_R : 0;
    return true;
}

bool decode_instruction(const uint8_t *bytes, unsigned count, struct instruction *out)
{
    struct cursor c = {.bytes = bytes, .count = count};

    *out = (struct instruction){0};
    bool known = decode_opcode_and_modrm(&c, out);
    out->length = (uint8_t)c.at;
    return known && c.at <= count;
}
