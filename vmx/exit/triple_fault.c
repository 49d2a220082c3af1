/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest shut a processor down: the machine is reset, as chipsets do it. Also how a refused
 * access ends. SDM Vol. 3, "Interrupt 8 - Double Fault Exception (#DF)"; "Information for VM Exits
 * That Occur During Event Delivery".
 */
#include "vmx/exit/exit.h"

#include "vmx/exit/report.h"
#include "vmx/root/end.h"

void exit_triple_fault(struct cpu *cpu)
{
    log_printf("\npmuvisor: the guest's processor %u shut down (triple fault); resetting the machine\n",
               cpu->apic_id);
    report_guest(cpu);
    processors_stop();
    report_places(cpu);
    machine_end(cpu);
}

const char *inject_refusal(struct cpu *cpu)
{
    enum delivery_fault fault = delivery_fault(vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION));

    if (fault == DELIVERY_SHUTDOWN)
        exit_triple_fault(cpu);
    if (fault == DELIVERY_DOUBLE_FAULT) {
        inject_df();
        return "double fault";
    }
    inject_gp();
    return "#GP";
}
