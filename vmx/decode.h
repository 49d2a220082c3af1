/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Decodes the instructions with which Linux accesses 32-bit registers of its local APIC in 64-bit
 * mode: MOV from memory, MOV of a register or an immediate to memory, and XCHG. Linux writes with
 * inline assembly, and since 6.9 it also reads with inline assembly (native_apic_mem_read()). In
 * older versions, gcc compiles the volatile read to a MOV. If the registers are identity-mapped,
 * gcc uses a MOV with the address in the instruction. Pure: reads the bytes, writes the
 * description, and accesses nothing else. SDM Vol. 2, "Instruction Format"; "MOV", "XCHG".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* SDM Vol. 3, "Interrupt 13 - General Protection Exception (#GP)" */
#define INSTRUCTION_BYTES_MAX 15

/* An instruction with 32-bit operand size and one operand in memory. If the instruction only
 * stores, root mode must not read that operand, because a read of a device's register may have an
 * effect. None of these instructions changes the flags. */
struct instruction {
    uint8_t length;     /* bytes, prefixes included */
    bool loads;         /* moves memory to the register; XCHG loads and stores */
    bool stores;        /* writes to memory */
    bool has_immediate; /* the store writes `immediate`, not the register */
    uint8_t reg;        /* enum gpr */
    uint32_t immediate; /* valid with has_immediate */
};

/* Decodes the instruction at bytes[0..count). False: the instruction is not one of the above, or it
 * is longer than `count` bytes (out->length > count). In both cases, only out->length is valid. */
bool decode_instruction(const uint8_t *bytes, unsigned count, struct instruction *out);
