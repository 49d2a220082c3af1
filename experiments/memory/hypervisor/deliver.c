/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Delivers an exception that exited during a step. The guest has not received this exception yet,
 * so the next VM entry injects it. SDM Vol. 3, "Information for VM Exits That Occur During Event
 * Delivery"; "Event Injection".
 */
#include "experiments/memory/hypervisor/state.h"

#include "experiments/memory/hypervisor/registers.h"
#include "vmx/exit/exit.h"
#include "vmx/exit/outcome.h"

/* Returns the outcome when an exception occurs during the delivery of another event. */
static enum delivery_fault classify_delivery_fault(uint32_t vectoring, uint32_t vector)
{
    enum delivery_fault fault = classify_delivery_gp(vectoring);
    bool alone = !(BIT(vector) & MAKES_DOUBLE_FAULT) ||
                 (vector == VECTOR_PF && (vectoring & INTERRUPTION_VECTOR) != VECTOR_PF);

    return fault == DELIVERY_DOUBLE_FAULT && alone ? DELIVERY_GP : fault;
}

void deliver_exception(struct cpu *cpu)
{
    uint32_t information = vmcs_read_32(VMCS_EXIT_INTERRUPTION_INFORMATION);
    uint32_t vector = information & (uint32_t)INTERRUPTION_VECTOR;
    enum delivery_fault fault = classify_delivery_fault(
        vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION), vector);

    if (fault == DELIVERY_SHUTDOWN)
        exit_triple_fault(cpu);
    /* Neither a page fault that exits nor its injection writes CR2, so write CR2 here. */
    if (vector == VECTOR_PF)
        write_cr2(vmcs_read_natural(VMCS_EXIT_QUALIFICATION));
    if (fault == DELIVERY_DOUBLE_FAULT)
        inject_df();
    else
        inject_event(information, vmcs_read_32(VMCS_EXIT_INTERRUPTION_ERROR_CODE));
}
