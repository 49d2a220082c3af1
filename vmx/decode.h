/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The instructions with which software reaches the dwords of a device in memory: what a compiler
 * makes of a volatile 32-bit variable. Pure: bytes in, description out; nothing is accessed.
 * SDM Vol. 2, "Instruction Format"; Appendix "Opcode Map".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define INSTRUCTION_BYTES_MAX 15 /* SDM Vol. 3, "General-Protection Exception (#GP)" */

enum code_size { CODE_16, CODE_32, CODE_64 }; /* CS.D = 0, CS.D = 1, CS.L = 1 */

/* The first eight are the numbers that the opcodes carry (SDM Vol. 2, "Opcode Extensions for One-
 * and Two-byte Opcodes by Group Number", group 1). 2 and 3, ADC and SBB, are not decoded. */
enum operation {
    OPERATION_ADD = 0,
    OPERATION_OR = 1,
    OPERATION_AND = 4,
    OPERATION_SUB = 5,
    OPERATION_XOR = 6,
    OPERATION_CMP = 7,
    OPERATION_TEST,
    OPERATION_MOV,
    OPERATION_XCHG,
};

/* One instruction of 32-bit operand size with exactly one explicit operand in memory. */
struct instruction {
    uint8_t length; /* bytes, prefixes included */
    enum operation operation;
    bool memory_first;  /* memory is the destination (CMP, TEST: the first operand) */
    bool has_immediate; /* the other operand is `immediate`, else the register */
    uint8_t reg;        /* enum gpr */
    uint32_t immediate; /* extended to 32 bits */
};

enum decode_result {
    DECODE_DONE,
    DECODE_SHORT,   /* `count` bytes are not all of it; with INSTRUCTION_BYTES_MAX: too long */
    DECODE_UNKNOWN, /* none of the forms above */
};

/* Decodes the instruction at bytes[0..count). *out is valid with DECODE_DONE alone. */
enum decode_result decode(const uint8_t *bytes, unsigned count, enum code_size size,
                          struct instruction *out);

/* What it does to its operands. */
struct effect {
    bool writes_memory, writes_register;
    uint32_t memory, reg; /* the new values */
};

/* Computes it from the operands' values before (those that it does not read do not count), and
 * leaves in *rflags the status flags as the processor would. SDM Vol. 1, "Status Flags". */
struct effect execute(const struct instruction *i, uint32_t memory, uint32_t reg, uint64_t *rflags);

/* Whether the instruction reads its operand in memory: a plain store must not, since reading a
 * device's register may do something. */
static inline bool reads_memory(const struct instruction *i)
{
    return i->operation != OPERATION_MOV || !i->memory_first;
}
