/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The trace levels, and how the guest changes them. A level consists of VMX controls and of rows
 * that replace rows of the table of handlers. While a level is off, it has neither, so no exit has
 * to test whether the level is on.
 */
#include "experiments/flow/hypervisor/dump.h"
#include "experiments/flow/hypervisor/level.h"
#include "experiments/flow/hypervisor/ports.h"

#include "experiment.h"
#include "hypercall.h"
#include "vmx/exit/exit.h"
#include "vmx/root/end.h"

void trace_set_level(struct cpu *cpu, uint32_t level)
{
    trace_remove_rows(cpu);
    if (level == TRACE_FLOW)
        trace_add_flow_rows(cpu);
    trace_set_port_exiting(cpu, level != TRACE_OFF);
    if (level != TRACE_OFF)
        trace_exits_rows(cpu);
    if (ring_options.exits == TRACE_FLOW)
        trace_set_flow_controls(level == TRACE_FLOW);
    trace_of(cpu)->ring->level = level;
}

/* Refuses a level above the option's level, because rings can be made and MWAIT can be hidden only
 * at the start. */
int64_t trace_call(struct cpu *cpu)
{
    uint64_t wanted = cpu->gpr[GPR_RBX];
    uint32_t was = trace_of(cpu)->ring->level;

    if (wanted != TRACE_ASK && wanted > TRACE_FLOW)
        return HYPERCALL_E_ARGUMENT;
    if (wanted != TRACE_ASK && wanted > ring_options.exits)
        return HYPERCALL_E_SUPPORT;
    if (wanted != TRACE_ASK && wanted != was) {
        if (wanted == TRACE_OFF)
            trace_of(cpu)->record->flags |= TRACE_ENDS;
        trace_set_level(cpu, (uint32_t)wanted);
    }
    cpu->gpr[GPR_RBX] = (uint64_t)trace_of(cpu)->ring;
    cpu->gpr[GPR_RCX] = (uint64_t)trace_of(cpu)->end - (uint64_t)trace_of(cpu)->ring;
    return was;
}

static void log_trace_level(void)
{
    log_printf("pmuvisor: trace of exits: a ring of %lu MiB for each processor, read-only for the "
               "guest; %s\n",
               ring_mib(),
               ring_options.exits == TRACE_FLOW
                   ? "HLT, loads of CR3 and external interrupts exit, MONITOR/MWAIT are hidden"
                   : "nothing more exits than without");
}

void trace_setup(struct cpu *cpu, UNUSED const struct vmx_capability *c)
{
    if (ring_options.exits == TRACE_OFF)
        return;
    trace_add_dump_row(cpu);
    if (!ring_setup(cpu))
        return;
    if (cpu == get_cpu_by_index(0))
        log_trace_level();
    if (ring_options.exits == TRACE_FLOW)
        trace_set_flow_gates();
    hypercall_offer(cpu, HYPERCALL_TRACE, trace_call);
    trace_ports_setup(cpu);
    trace_flow_setup();
    trace_set_level(cpu, ring_options.exits);
}
