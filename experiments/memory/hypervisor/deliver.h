/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Delivers an exception that exited during a step.
 */
#pragma once

#include "vmx/cpu.h"

/* Lets the next VM entry deliver the exception that exited, which must not be #DB. If the exception
 * occurred during the delivery of another event, the entry delivers the event that results from
 * both. */
void deliver_exception(struct cpu *cpu);
