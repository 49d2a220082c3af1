/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor whose records lack what experiments/flow/hypervisor/exit.c notes: reason,
 * interruptibility, and detail are those of the record that was in this place before.
 */
#include "experiments/flow/hypervisor/level.h"
#include "vmx/exit/exit.h"

void __real_trace_exits_rows(struct cpu *cpu);
void __wrap_trace_exits_rows(struct cpu *cpu);

static exit_handler rows[EXIT_REASON_COUNT + 1];

static void unnoted(struct cpu *cpu)
{
    struct trace_record *record = trace_of(cpu)->record;
    struct trace_record before = *record;
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    rows[reason < EXIT_REASON_COUNT ? reason : EXIT_REASON_COUNT](cpu);
    record->reason = before.reason;
    record->flags = before.flags;
    record->detail = before.detail;
}

void __wrap_trace_exits_rows(struct cpu *cpu)
{
    __real_trace_exits_rows(cpu);
    for (unsigned reason = 0; reason <= EXIT_REASON_COUNT; reason++) {
        rows[reason] = cpu->handlers[reason];
        cpu->handlers[reason] = unnoted;
    }
}
