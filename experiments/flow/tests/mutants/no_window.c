/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that takes an external interrupt for a guest that cannot take it now, and does not
 * ask for the window: it is lost. Linked instead of experiments/flow/hypervisor/flow.c's row for
 * it.
 */
#include "experiments/flow/hypervisor/level.h"
#include "vmx/exit/exit.h"

void __real_trace_add_flow_rows(struct cpu *cpu);
void __wrap_trace_add_flow_rows(struct cpu *cpu);

static exit_handler real_interrupt;

static void without_window(struct cpu *cpu)
{
    if (vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_IF &&
        !(cpu->blocking & (BLOCKING_BY_STI | BLOCKING_BY_MOV_SS)))
        real_interrupt(cpu);
    else
        (void)trace_take_interrupt();
}

void __wrap_trace_add_flow_rows(struct cpu *cpu)
{
    __real_trace_add_flow_rows(cpu);
    real_interrupt = cpu->handlers[EXIT_REASON_EXTERNAL_INTERRUPT];
    cpu->handlers[EXIT_REASON_EXTERNAL_INTERRUPT] = without_window;
}
