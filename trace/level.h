/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a level of the trace is made of.
 */
#pragma once

#include "cpu.h"
#include "trace_ring.h"

/* level.c: turns this processor to a TRACE_* level from its next exit on. The exit that asks for it
 * is recorded where it began under a level. */
void trace_set_level(struct cpu *cpu, uint32_t level);
/* VMCALL's handler while there are rings, at each level: HYPERCALL_TRACE, and all others. */
void trace_vmcall(struct cpu *cpu);

/* entry.asm: HOST_RIP of the levels, without and with mitigations. */
extern const char trace_exit_entry[], trace_exit_entry_guarded[];

/* exit.c: called from entry.asm in vmx_exit()'s place, with the record's TSC, RIP and CR3 written.
 * Does what that does, and notes reason, interruptibility and detail. */
exit_handler trace_exit(struct cpu *cpu);
/* Puts the level's rows over the table of handlers. */
void trace_exits_rows(struct cpu *cpu);
void trace_flow_rows(struct cpu *cpu); /* flow.c */

/* How Linux changes CR3 inside of one process: between the table of the kernel and that of user
 * space (arch/x86/entry/calling.h, PTI_USER_PGTABLE_AND_PCID_MASK). */
#define CR3_USER_SIDE 0x1800ULL
/* flow.c: loads of this process's tables do not exit from here on, with and without a flush. */
void trace_pass_loads_of(uint64_t value);
/* Turns what flow wants to exit on or off. */
void trace_flow_controls(bool on);
/* Makes the interrupts of this processor end trace_take_interrupt() in root mode. False: the page
 * pool is used up. */
bool trace_flow_gates(void);

/* interrupt.asm: lets the local APIC deliver the interrupt that is first in its order, to root
 * mode. Gives its vector; 0: there is none. Interrupts are off before and after. Nothing executes
 * IRET. */
uint32_t trace_take_interrupt(void);
#define TRACE_VECTOR_FIRST 16 /* the lowest that a local APIC delivers */
#define TRACE_GATE_BYTES 8
extern const char trace_gates[]; /* one for each vector from TRACE_VECTOR_FIRST to 255 */
