/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Decodes the instructions that Linux uses to access the dwords of its local APIC in 64-bit mode:
 * MOV from memory, MOV of a register or an immediate to memory, and XCHG. Linux writes by inline
 * assembly, and since 6.9 it reads in the same way (native_apic_mem_read()). Before that gcc
 * compiles the volatile read to a MOV, and if the registers are mapped to themselves, to a MOV with
 * the address in the instruction. Pure: bytes in, description out; it accesses nothing else. SDM
 * Vol. 2, "Instruction Format"; "MOV", "XCHG".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* SDM Vol. 3, "Interrupt 13 - General Protection Exception (#GP)" */
#define INSTRUCTION_BYTES_MAX 15

/* An instruction with 32-bit operand size and one operand in memory. A plain store must not read
 * that operand, because reading a device's register may have an effect. No such instruction changes
 * the flags. */
struct instruction {
    uint8_t length;     /* bytes, prefixes included */
    bool loads;         /* from memory to the register; XCHG does both */
    bool stores;        /* to memory */
    bool has_immediate; /* the store writes `immediate`; else it writes the register */
    uint8_t reg;        /* enum gpr */
    uint32_t immediate; /* valid with has_immediate */
};

/* Decodes the instruction at bytes[0..count). False: the instruction is not one of these, or it is
 * longer than `count` bytes and out->length > count. The rest of *out is then not valid. */
bool decode_instruction(const uint8_t *bytes, unsigned count, struct instruction *out);
