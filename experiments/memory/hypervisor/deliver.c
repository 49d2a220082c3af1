/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What becomes of an event that an exit of a step has kept from the guest: the next entry delivers
 * it. SDM Vol. 3, "Information for VM Exits That Occur During Event Delivery"; "Event Injection".
 */
#include "experiments/memory/hypervisor/deliver.h"

#include "experiments/memory/hypervisor/registers.h"
#include "vmx/exit/exit.h"
#include "vmx/exit/outcome.h"

/* What becomes of an exception that comes in the delivery of another. */
static enum delivery_fault becomes(uint32_t vectoring, uint32_t vector)
{
    enum delivery_fault fault = delivery_fault(vectoring);
    bool alone = !(BIT(vector) & MAKES_DOUBLE_FAULT) ||
                 (vector == VECTOR_PF && (vectoring & INTERRUPTION_VECTOR) != VECTOR_PF);

    return fault == DELIVERY_DOUBLE_FAULT && alone ? DELIVERY_GP : fault;
}

void deliver_exception(struct cpu *cpu)
{
    uint32_t information = vmcs_read_32(VMCS_EXIT_INTERRUPTION_INFORMATION);
    uint32_t vector = information & (uint32_t)INTERRUPTION_VECTOR;
    enum delivery_fault fault = becomes(vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION), vector);

    if (fault == DELIVERY_SHUTDOWN)
        exit_triple_fault(cpu);
    /* The exit has not written it, nor will the entry. */
    if (vector == VECTOR_PF)
        write_cr2(vmcs_read_natural(VMCS_EXIT_QUALIFICATION));
    if (fault == DELIVERY_DOUBLE_FAULT)
        inject_df();
    else
        inject_event(information, vmcs_read_32(VMCS_EXIT_INTERRUPTION_ERROR_CODE));
}
