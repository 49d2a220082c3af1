/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The levels of the trace, and how the guest turns them. A level is rows over the table of
 * handlers, and controls: what is off has none of them, so there is no test for it on any exit.
 */
#include "trace/level.h"

#include "hypercall.h"
#include "vmx/exit/exit.h"

void trace_set_level(struct cpu *cpu, uint32_t level)
{
    exit_setup(cpu);
    cpu->handlers[EXIT_REASON_VMCALL] = trace_vmcall;
    if (level == TRACE_FLOW)
        trace_flow_rows(cpu);
    if (level != TRACE_OFF)
        trace_exits_rows(cpu);
    if (cpu->boot->options.trace == TRACE_FLOW)
        trace_flow_controls(level == TRACE_FLOW);
    cpu->trace.ring->level = level;
}

/* A level above that of the options lacks what only the start can do: rings, hidden MWAIT. */
static int64_t change_level(struct cpu *cpu)
{
    uint64_t wanted = cpu->gpr[GPR_RBX];
    uint32_t was = cpu->trace.ring->level;

    if (wanted != TRACE_ASK && wanted > TRACE_FLOW)
        return HYPERCALL_E_ARGUMENT;
    if (wanted != TRACE_ASK && wanted > cpu->boot->options.trace)
        return HYPERCALL_E_SUPPORT;
    if (wanted != TRACE_ASK && wanted != was) {
        if (wanted == TRACE_OFF)
            cpu->trace.record->flags |= TRACE_ENDS;
        trace_set_level(cpu, (uint32_t)wanted);
    }
    cpu->gpr[GPR_RBX] = (uint64_t)cpu->trace.ring;
    cpu->gpr[GPR_RCX] = (uint64_t)cpu->trace.end - (uint64_t)cpu->trace.ring;
    return was;
}

void trace_vmcall(struct cpu *cpu)
{
    if (!trace_is_call(cpu, HYPERCALL_TRACE)) {
        exit_vmcall(cpu);
        return;
    }
    cpu->gpr[GPR_RAX] = (uint64_t)change_level(cpu);
    skip_instruction(cpu);
}
