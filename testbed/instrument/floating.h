/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which instructions FP_ARITH_INST_RETIRED counts, and how often. Knows opcodes by their names and
 * nothing else of Bochs. Source: the descriptions of perf's events of Skylake-X, "Counts number of
 * SSE/AVX computational ... floating-point instructions retired".
 */
#pragma once

#include <cstdint>

/* By precision and width: the bits of the event's unit mask, in their order. */
enum FpClass {
    FP_SCALAR_DOUBLE,
    FP_SCALAR_SINGLE,
    FP_128_DOUBLE,
    FP_128_SINGLE,
    FP_256_DOUBLE,
    FP_256_SINGLE,
    FP_512_DOUBLE,
    FP_512_SINGLE,
    FP_CLASSES
};

/* A fused operation or a dot product counts twice. */
constexpr unsigned FP_COUNTS_MAX = 2;

/* What an opcode is before its vector's length is known. */
struct FpOpcode {
    uint8_t counts = 0; /* at most FP_COUNTS_MAX; 0: it is none of these */
    bool scalar = false;
    bool single = false;
};

/* The opcode of that name as Bochs writes it, less "BX_IA_": "ADDSD_VsdWsd". */
FpOpcode fp_opcode(const char *name);

/* Its class with vectors of so many 128 bits: 0 (an SSE instruction), 1, 2 or 4. */
FpClass fp_class(const FpOpcode &opcode, unsigned length);
