/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The record of an exit, where it is not written by entry.asm.
 */
#include "nmi/nmi.h"
#include "experiments/flow/hypervisor/level.h"
#include "vmx/exit/exit.h"

/* The register that says what the exit is about; none of it for all others. */
static const struct {
    uint32_t gpr, mask;
} details[EXIT_REASON_COUNT + 1] = {
    [EXIT_REASON_CPUID] = {GPR_RAX, ~0u},
    [EXIT_REASON_VMCALL] = {GPR_RAX, ~0u},
    [EXIT_REASON_RDMSR] = {GPR_RCX, ~0u},
    [EXIT_REASON_WRMSR] = {GPR_RCX, ~0u},
};

static inline void note_and_handle(struct cpu *cpu)
{
    struct trace_record *record = trace_of(cpu)->record;
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    if (__builtin_expect(reason >= EXIT_REASON_COUNT, 0))
        reason = EXIT_REASON_COUNT;
    record->reason = (uint8_t)reason;
    record->flags = cpu->blocking & (uint32_t)BITS(4, 0);
    record->detail = (uint32_t)cpu->gpr[details[reason].gpr] & details[reason].mask;
    cpu->exits[reason]++;
    cpu->handlers[reason](cpu);
}

static __attribute__((noinline)) void trace_exit_with_nmi_work(struct cpu *cpu)
{
    exit_nmi_work(cpu);
    note_and_handle(cpu);
}

void trace_exit(struct cpu *cpu)
{
    cpu->blocking = vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE);
    if (__builtin_expect(nmi_after_exit(cpu), 0))
        trace_exit_with_nmi_work(cpu);
    else
        note_and_handle(cpu);
}

static void trace_io(struct cpu *cpu)
{
    trace_of(cpu)->record->detail = (uint32_t)vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    exit_io(cpu);
}

void trace_ept_violation(struct cpu *cpu)
{
    trace_of(cpu)->record->detail = (uint32_t)(vmcs_read_64(VMCS_GUEST_PHYSICAL_ADDRESS) / PAGE_SIZE);
    exit_ept_violation(cpu);
}

void trace_exits_rows(struct cpu *cpu)
{
    cpu->handlers[EXIT_REASON_IO_INSTRUCTION] = trace_io;
    cpu->handlers[EXIT_REASON_EPT_VIOLATION] = trace_ept_violation_with_all_gprs;
}
