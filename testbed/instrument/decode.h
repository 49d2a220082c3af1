/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Instructions that the library executes itself or wants to hear of. They are caught once, when
 * Bochs decodes them, so that all others cost nothing.
 */
#pragma once

class bxInstruction_c;

/* Bochs has decoded `i`: gives it another handler if it is one of ours. */
void decode_instruction(bxInstruction_c *i);

/* To be called once, before any instruction is decoded. */
void decode_init();
