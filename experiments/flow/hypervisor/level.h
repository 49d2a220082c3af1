/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a level of the trace is made of.
 */
#pragma once

#include "cpu.h"
#include "experiments/shared/hypervisor/cr3.h"
#include "experiments/shared/hypervisor/ring.h"
#include "vmx/capability.h"
#include "vmx/inject.h"

/* level.c: turns this processor to a TRACE_* level from its next exit on. The exit that asks for it
 * is recorded where it began under a level. */
void trace_set_level(struct cpu *cpu, uint32_t level);
/* On the processor itself: its ring, and the level that the option names. */
void trace_setup(struct cpu *cpu, const struct vmx_capability *c);
int64_t trace_call(struct cpu *cpu); /* HYPERCALL_TRACE */

/* entry.asm: HOST_RIP of the levels, without and with mitigations. */
extern const char trace_exit_entry[], trace_exit_entry_guarded[];

/* exit.c: called from entry.asm in vmx_exit()'s place, with the record's TSC, RIP and CR3 written.
 * Does what that does, and notes reason, interruptibility and detail. */
void trace_exit(struct cpu *cpu);
/* Puts the level's rows over the table of handlers. */
void trace_exits_rows(struct cpu *cpu);
void trace_flow_rows(struct cpu *cpu); /* flow.c */
/* Of these rows, those that want all registers, and entry.asm's ways to them (vmx/exit/exit.h). */
void trace_ept_violation(struct cpu *cpu), flow_cr_access(struct cpu *cpu);
void trace_ept_violation_with_all_gprs(struct cpu *cpu), flow_cr_access_with_all_gprs(struct cpu *cpu);

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
