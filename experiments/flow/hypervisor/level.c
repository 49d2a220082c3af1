/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The levels of the trace, and how the guest turns them. A level is a HOST_RIP, a row of handlers
 * and controls: what is off has none of them, so there is no test for it on any exit.
 */
#include "experiments/flow/hypervisor/level.h"

#include "hypercall.h"
#include "vmx/exit/exit.h"

static uint64_t entry_of(const struct cpu *cpu, uint32_t level)
{
    if (level == TRACE_OFF)
        return cpu->trace.plain_entry;
    bool guarded = cpu->trace.plain_entry != (uint64_t)vmx_exit_entry;
    return (uint64_t)(guarded ? trace_exit_entry_guarded : trace_exit_entry);
}

void trace_set_level(struct cpu *cpu, uint32_t level)
{
    exit_setup(cpu, level != TRACE_OFF || exit_keeps_gprs(cpu));
    cpu->handlers[EXIT_REASON_VMCALL] = trace_vmcall;
    if (level != TRACE_OFF)
        trace_exits_rows(cpu);
    if (level == TRACE_FLOW)
        trace_flow_rows(cpu);
    if (cpu->boot->options.trace == TRACE_FLOW)
        trace_flow_controls(level == TRACE_FLOW);
    vmcs_write_natural(VMCS_HOST_RIP, entry_of(cpu, level));
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
