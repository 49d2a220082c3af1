/* SPDX-License-Identifier: BSD-2-Clause
 *
 * EPT violations: the guest accessed an address that the EPT does not map, or wrote to a page that
 * the EPT maps read-only. The address is hidden from the guest (the hypervisor's memory, VT-d
 * units, the local APIC with apic=trap) or past the end of the map. One page of the hypervisor's
 * memory is the reset doorbell.
 *
 * If the exit interrupted the delivery of an event, the event is delivered again only if the output
 * of an Intel PT trace caused the violation. Any other event is lost: the map never changes, so its
 * delivery would exit forever. If an IRET caused the violation while NMIs were blocked, the saved
 * blocking is already right: NMIs are no longer blocked, as after an IRET that faults without VMX.
 * SDM Vol. 3, "EPT Violations", "Exit Qualification for EPT Violations".
 */
#include "vmx/exit/exit.h"

#include "vmx/exit/apic_trap.h"
#include "vmx/exit/report.h"

void exit_ept_violation(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint64_t address = vmcs_read_64(VMCS_GUEST_PHYSICAL_ADDRESS);

    if (cpu->apic.page != 0 && address - cpu->apic.page < PAGE_SIZE &&
        apic_trap_access(cpu, address, qualification))
        return;
    uint64_t kind = qualification & (EPT_VIOLATION_WRITE | EPT_VIOLATION_ASYNCHRONOUS);
    if (address - get_reset_doorbell(cpu->boot) < PAGE_SIZE && kind == EPT_VIOLATION_WRITE) {
        log_printf("\npmuvisor: the guest asked for a reset\n");
        log_finish();
        stop_and_reset_machine(cpu);
    }
    if (may_log_refusal(cpu))
        log_printf("pmuvisor: the guest's %s of 0x%lx at RIP 0x%lx was refused: not its memory\n",
                   qualification & EPT_VIOLATION_WRITE   ? "write"
                   : qualification & EPT_VIOLATION_FETCH ? "execution"
                                                         : "read",
                   address, vmcs_read_natural(VMCS_GUEST_RIP));
    if (!(qualification & EPT_VIOLATION_ASYNCHRONOUS && pt_report_output_error(cpu, qualification)))
        (void)inject_gp_or_df(cpu);
}
