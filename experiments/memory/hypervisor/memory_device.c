/* SPDX-License-Identifier: BSD-2-Clause
 *
 * memtrace=devices: records accesses to everything in the guest's map that is not memory. This is
 * device registers and device memory. Root mode never touches a device, because a read may have a
 * side effect. So a record contains no value. Steps for reads and steps for writes both run under
 * the open map. Under this map, an instruction accesses the device once. Each iteration of a REP is
 * stepped. An access that the guest's own map denies stays denied.
 */
#include "experiments/memory/hypervisor/memory_event.h"
#include "experiments/memory/hypervisor/memory_record.h"

#include "vmx/exit/exit.h"

static exit_handler device_row[EXIT_REASON_COUNT + 1];

static void device_trap(struct cpu *cpu)
{
    memory_step_trapped(cpu);
    memory_record_publish(cpu);
}

void memory_device_setup(void)
{
    for (unsigned reason = 0; reason <= EXIT_REASON_COUNT; reason++)
        device_row[reason] = memory_step_row[reason];
    device_row[EXIT_REASON_MONITOR_TRAP_FLAG] = device_trap;
    /* Another violation ends the step, as any other exit does. */
    device_row[EXIT_REASON_EPT_VIOLATION] = memory_step_row[EXIT_REASON_COUNT];
}

/* Returns whether the access is a read or a write of a device that the guest's own map allows, so
 * that only the closed map denies it. */
static bool is_denied_by_map(const struct cpu *cpu, uint64_t qualification, uint64_t gpa)
{
    uint64_t bytes, entry = ept_lookup(cpu->ept_root, gpa, &bytes);
    uint64_t access = qualification & (EPT_VIOLATION_READ | EPT_VIOLATION_WRITE);

    return access != 0 && !ept_is_memory(entry) && !(access & ~entry);
}

void memory_device_violation(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint32_t vectoring = vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION);
    uint64_t gpa = vmcs_read_64(VMCS_GUEST_PHYSICAL_ADDRESS);
    uint64_t gla = vmcs_read_natural(VMCS_GUEST_LINEAR_ADDRESS);

    if (qualification & EPT_VIOLATION_ASYNCHRONOUS && pt_report_output_error(cpu, qualification))
        return;
    if (!is_denied_by_map(cpu, qualification, gpa))
        exit_ept_violation(cpu);
    else if (vectoring & INTERRUPTION_VALID)
        memory_event(cpu, vectoring, gla, gpa);
    else
        memory_step_instruction(cpu, qualification, TRACE_DEVICE, gla, gpa, device_row);
}
