/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a level of the trace is made of.
 */
#pragma once

#include "experiments/flow/hypervisor/registers.h"
#include "experiments/shared/hypervisor/cr3.h"
#include "experiments/shared/hypervisor/ring.h"
#include "vmx/capability.h"
#include "vmx/cpu.h"
#include "vmx/exit/outcome.h"

/* level.c: turns this processor to a TRACE_* level from its next exit on. The exit that asks for it
 * is recorded where it began under a level. */
void trace_set_level(struct cpu *cpu, uint32_t level);
/* On the processor itself: its ring, and the level that the option names. */
void trace_setup(struct cpu *cpu, const struct vmx_capability *c);
int64_t trace_call(struct cpu *cpu); /* HYPERCALL_TRACE */

void trace_flow_setup(void); /* flow.c: once or more, before a level */
void trace_flow_rows(
    struct cpu *cpu); /* flow.c: puts the level's rows over the table of handlers */
/* exit.c: puts those over it that record each exit. */
void trace_exits_rows(struct cpu *cpu);
void flow_cr_access(struct cpu *cpu); /* of flow.c's rows */

/* Turns what flow wants to exit on or off. */
void trace_flow_controls(bool on);
/* Makes the interrupts of this processor end trace_take_interrupt() in root mode. False: the page
 * pool is used up. */
bool trace_flow_gates(void);

/* interrupt.asm: lets the local APIC deliver the interrupt that is first in its order, to root
 * mode. Gives the interruption information that injects it; 0: there is none. Interrupts are off
 * before and after. Nothing executes IRET. */
uint32_t trace_take_interrupt(void);
#define TRACE_GATE_BYTES 8
extern const char trace_gates[]; /* one for each vector */
