/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The instruction at the guest's RIP, for exits that neither skip nor describe it: EPT violations.
 */
#pragma once

#include "cpu.h"
#include "decode.h"

/* Reads and decodes it, by the windows of struct cpu. False: it cannot be read, or is none of
 * decode.h's forms; one line in the log says which. Never faults, whatever the guest's tables
 * hold. */
bool guest_code_decode(struct cpu *cpu, struct instruction *out);
