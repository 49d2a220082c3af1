/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How an access ends that the guest may not make. SDM Vol. 3, "Interrupt 8 - Double Fault Exception
 * (#DF)"; "Information for VM Exits That Occur During Event Delivery".
 */
#include "vmx/exit/exit.h"

const char *inject_refusal(struct cpu *cpu)
{
    enum delivery_fault fault = delivery_fault(vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION));

    if (fault == DELIVERY_SHUTDOWN)
        exit_triple_fault(cpu);
    /* A record of PEBS may be refused while the guest halts, where no #GP can be injected. */
    vmcs_zero(VMCS_GUEST_ACTIVITY_STATE);
    if (fault == DELIVERY_DOUBLE_FAULT) {
        inject_df();
        return "double fault";
    }
    inject_gp();
    return "#GP";
}
