/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The instructions with which Linux reaches the dwords of its local APIC, in 64-bit mode: MOV from
 * memory, to it from a register or of an immediate, and XCHG. Its writes are inline assembly, and
 * its reads since 6.9 (native_apic_mem_read()); gcc makes a MOV of the volatile read before that,
 * and where the registers are mapped to themselves one with the address in the instruction.
 * Pure: bytes in, description out; nothing is accessed. SDM Vol. 2, "Instruction Format"; "MOV",
 * "XCHG".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* SDM Vol. 3, "Interrupt 13 - General Protection Exception (#GP)" */
#define INSTRUCTION_BYTES_MAX 15

/* One instruction of 32-bit operand size with one operand in memory. A plain store must not read
 * it, since reading a device's register may do something. None of them changes flags. */
struct instruction {
    uint8_t length;     /* bytes, prefixes included */
    bool loads;         /* from memory to the register; XCHG does both */
    bool stores;        /* to memory */
    bool has_immediate; /* the store writes `immediate`; else it writes the register */
    uint8_t reg;        /* enum gpr */
    uint32_t immediate; /* valid with has_immediate */
};

/* Decodes the instruction at bytes[0..count). False: it is none of these, or out->length > count
 * and it goes on after them; the rest of *out is not valid then. */
bool decode(const uint8_t *bytes, unsigned count, struct instruction *out);
