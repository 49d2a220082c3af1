/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What becomes of an event that an exit of a step has kept from the guest.
 */
#pragma once

#include "vmx/cpu.h"

/* The exception that exited, not #DB: the next entry delivers it, or what it becomes where it came
 * in the delivery of another. */
void deliver_exception(struct cpu *cpu);
