/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that acknowledges an external interrupt at its exit, as "acknowledge interrupt on
 * exit" does, and keeps it until the guest can take it: what comes in between cannot go first any
 * more. Linked instead of experiments/flow/hypervisor/flow.c's row for it.
 */
#include "experiments/flow/hypervisor/level.h"
#include "vmx/exit/exit.h"

void __real_trace_add_flow_rows(struct cpu *cpu);
void __wrap_trace_add_flow_rows(struct cpu *cpu);

static exit_handler real_interrupt, real_window;
static uint32_t kept[PROCESSORS_MAX]; /* by APIC ID */

static bool blocked(const struct cpu *cpu)
{
    return !(vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_IF) ||
           cpu->blocking & (BLOCKING_BY_STI | BLOCKING_BY_MOV_SS);
}

static void acknowledge(struct cpu *cpu)
{
    uint32_t *mine = &kept[cpu->apic_id % PROCESSORS_MAX];

    if (blocked(cpu) && *mine == 0)
        *mine = trace_take_interrupt();
    real_interrupt(cpu);
}

static void window(struct cpu *cpu)
{
    uint32_t *mine = &kept[cpu->apic_id % PROCESSORS_MAX];

    if (*mine == 0) {
        real_window(cpu);
        return;
    }
    vmcs_write_32(VMCS_ENTRY_INTERRUPTION_INFORMATION, INTERRUPTION_VALID | *mine);
    *mine = 0;
}

void __wrap_trace_add_flow_rows(struct cpu *cpu)
{
    __real_trace_add_flow_rows(cpu);
    real_interrupt = cpu->handlers[EXIT_REASON_EXTERNAL_INTERRUPT];
    real_window = cpu->handlers[EXIT_REASON_INTERRUPT_WINDOW];
    cpu->handlers[EXIT_REASON_EXTERNAL_INTERRUPT] = acknowledge;
    cpu->handlers[EXIT_REASON_INTERRUPT_WINDOW] = window;
}
