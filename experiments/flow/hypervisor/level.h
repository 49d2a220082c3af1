/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The parts of a trace level.
 */
#pragma once

#include "experiments/flow/hypervisor/registers.h"
#include "experiments/shared/hypervisor/cr3.h"
#include "experiments/shared/hypervisor/ring.h"
#include "vmx/capability.h"
#include "vmx/cpu.h"
#include "vmx/exit/outcome.h"

/* level.c: switches this processor to a TRACE_* level from its next exit on. The exit in which the
 * guest asks for the level is recorded if a level was on when that exit began. */
void trace_set_level(struct cpu *cpu, uint32_t level);
/* Sets up this processor's ring and the level that the option names. Runs on the processor
 * itself. */
void trace_setup(struct cpu *cpu, const struct vmx_capability *c);
int64_t trace_call(struct cpu *cpu); /* HYPERCALL_TRACE */

/* flow.c: call this function at least once before trace_set_level(). */
void trace_flow_setup(void);
/* flow.c: replaces rows of the table of handlers by the rows of trace=flow. */
void trace_add_flow_rows(struct cpu *cpu);
/* exit.c: replaces all rows of the table of handlers by rows that record the exit. */
void trace_exits_rows(struct cpu *cpu);
void flow_cr_access(struct cpu *cpu); /* one of flow.c's rows */

/* Turns on or off the exits that trace=flow adds. */
void trace_set_flow_controls(bool on);
/* Installs this processor's gates. Through these gates, an interrupt in root mode ends
 * trace_take_interrupt(). */
void trace_set_flow_gates(void);

/* interrupt.asm: lets the local APIC deliver its pending interrupt of the highest priority to root
 * mode. Returns the interruption information that injects this interrupt, or 0 if there is no
 * interrupt. Interrupts are disabled before and after the call. Nothing executes IRET. */
uint32_t trace_take_interrupt(void);
#define TRACE_GATE_BYTES 8
extern const char trace_gates[]; /* one gate for each vector */
