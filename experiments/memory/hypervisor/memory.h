/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory trace records each access by an EPT violation and a single step.
 *
 * There are three maps of the guest's memory. While a processor uses a map, the map changes only to
 * allow more (memory_map_allow_read()). The closed map denies the traced accesses. An instruction
 * that violates the closed map is executed again under the open map, which is the guest's own map.
 * Blocking by MOV SS keeps events from arriving before the instruction. The monitor trap flag
 * causes an exit after the instruction. The half-open map allows reads, so that the trace also sees
 * the write of an instruction that reads and writes.
 *
 * Each map has its own EPT pointer. So no INVEPT is needed, and a step on one processor opens
 * nothing for the other processors. After Schmidt, "Evaluating Techniques for Full System Memory
 * Tracing", section 4.2; SDM Vol. 3, "Monitor Trap Flag"; "Interruptibility State"; "EPT
 * Violations".
 */
#pragma once

#include "vmx/capability.h"
#include "vmx/cpu.h"

/* Sets up this processor's ring, offers HYPERCALL_MEMTRACE, and starts the trace for memtrace_ms=.
 * Runs on the processor itself. If something is missing, a log line says what, and the guest runs
 * without the trace. */
void memory_setup(struct cpu *cpu, const struct vmx_capability *c);
