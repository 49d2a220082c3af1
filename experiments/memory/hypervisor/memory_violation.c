/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An instruction that violates the closed map, and the exits that may come in its step.
 */
#include "experiments/memory/hypervisor/memory_event.h"
#include "experiments/memory/hypervisor/memory_record.h"

#include "nmi/nmi.h"
#include "pmu/pmu.h"
#include "vmx/exit/exit.h"

exit_handler memory_step_row[EXIT_REASON_COUNT + 1];

static void step_trap(struct cpu *cpu)
{
    const struct trace_memory *record = (const struct trace_memory *)trace_of(cpu)->record;
    bool one = memory_of(cpu)->begun == 1;

    memory_step_trapped(cpu);
    memory_record_publish(cpu);
    if (one && record->flags == TRACE_WRITE)
        memory_do_string(cpu, record, memory_of(cpu)->rsi);
}

static void step_other(struct cpu *cpu)
{
    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    memory_abandon_step(cpu);
    /* The entry failed, because HLT does not allow blocking by MOV SS (SDM Vol. 3, "Checks on Guest
     * Non-Register State"). The step began in HLT, because the processor itself made the access
     * that violated the map, for PEBS. End HLT early, so that the next instruction is stepped. */
    if (reason & EXIT_REASON_ENTRY_FAILURE && vmcs_read_32(VMCS_GUEST_ACTIVITY_STATE) != 0) {
        vmcs_write_32(VMCS_GUEST_ACTIVITY_STATE, 0);
        return;
    }
    trace_of(cpu)->under[memory_exit_reason(cpu)](cpu);
}

/* With memtrace_step=exits, the local APIC keeps an interrupt that ends a step. An NMI that ends a
 * step is sent again, just as nmi/nmi.c sends again an NMI that root mode took. */

static void step_nmi(struct cpu *cpu)
{
    memory_abandon_step(cpu);
    if (nmi_claim(cpu, FOUND_IN_ROOT, vmcs_read_natural(VMCS_GUEST_RIP), false) != 0 &&
        !nmi_may_include_guest_nmi(cpu))
        return;
    pmu_freeze_as_guest(cpu);
    (void)nmi_forward(cpu);
}

static void step_exception(struct cpu *cpu)
{
    uint32_t information = vmcs_read_32(VMCS_EXIT_INTERRUPTION_INFORMATION);

    if (interruption_type(information) == INTERRUPTION_TYPE_NMI) {
        (cpu->nmi.passthrough ? step_nmi : step_other)(cpu);
    } else if (memory_always_exits(cpu, information)) {
        step_other(cpu);
    } else {
        memory_abandon_step(cpu);
        deliver_exception(cpu);
    }
}

/* The half-open map allows reads, so a violation by the stepped instruction is the instruction's
 * write. Any other violation comes from an event's delivery, or from a store that the processor
 * makes of its own accord. Such a violation ends the step, and is handled as if there had been no
 * step. */
static void step_violation(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint64_t gla = vmcs_read_natural(VMCS_GUEST_LINEAR_ADDRESS);
    uint64_t gpa = vmcs_read_64(VMCS_GUEST_PHYSICAL_ADDRESS);

    if (vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID ||
        (qualification & (EPT_VIOLATION_TRANSLATED | EPT_VIOLATION_ASYNCHRONOUS)) !=
            EPT_VIOLATION_TRANSLATED ||
        memory_find_guest(cpu, gpa) == NULL) {
        memory_abandon_step(cpu);
        memory_violation(cpu);
        return;
    }
    if (memory_is_traced(cpu, gla, gpa))
        memory_record_begin(cpu, (uint32_t)(qualification & memory_of(cpu)->recorded), gla, gpa);
    vmcs_write_64(VMCS_EPT_POINTER, memory_of(cpu)->open);
    memory_block_events(cpu, qualification);
}

void memory_violation(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint32_t vectoring = vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION);
    uint64_t gpa = vmcs_read_64(VMCS_GUEST_PHYSICAL_ADDRESS);
    uint64_t gla = vmcs_read_natural(VMCS_GUEST_LINEAR_ADDRESS);
    bool walk = !(qualification & EPT_VIOLATION_TRANSLATED);
    uint32_t flags = walk || qualification & EPT_VIOLATION_ASYNCHRONOUS ? TRACE_INEXACT : 0;

    if (qualification & EPT_VIOLATION_ASYNCHRONOUS && pt_report_output_error(cpu, qualification))
        return;
    else if (memory_find_guest(cpu, gpa) == NULL)
        exit_ept_violation(cpu);
    else if (walk && memory_walk(cpu, qualification, gla, gpa))
        if (vectoring & INTERRUPTION_VALID)
            memory_deliver_event_again(cpu, vectoring);
        else
            memory_keep_nmi_blocked(cpu, qualification);
    else if (vectoring & INTERRUPTION_VALID)
        memory_event(cpu, vectoring, gla, gpa);
    else
        memory_step_instruction(cpu, qualification, flags, gla, gpa, memory_step_row);
}

void memory_step_setup(void)
{
    for (unsigned reason = 0; reason <= EXIT_REASON_COUNT; reason++)
        memory_step_row[reason] = step_other;
    memory_step_row[EXIT_REASON_MONITOR_TRAP_FLAG] = step_trap;
    memory_step_row[EXIT_REASON_EPT_VIOLATION] = step_violation;
    memory_step_row[EXIT_REASON_EXCEPTION_OR_NMI] = step_exception;
    memory_step_row[EXIT_REASON_EXTERNAL_INTERRUPT] = memory_abandon_step;
}
