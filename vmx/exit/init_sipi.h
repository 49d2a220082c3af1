/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest's processors between INIT and SIPI.
 */
#pragma once

#include "vmx/cpu.h"

/* Puts the guest's processor into its state after an INIT. */
void guest_set_init_state(struct cpu *cpu);
