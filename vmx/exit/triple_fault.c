/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A triple fault has shut down one of the guest's processors. Root mode resets the machine, as
 * chipsets do. SDM Vol. 3, "Other Causes of VM Exits".
 */
#include "vmx/exit/exit.h"

#include "vmx/exit/report.h"
#include "vmx/root/end.h"

void exit_triple_fault(struct cpu *cpu)
{
    log_printf(
        "\npmuvisor: the guest's processor %u shut down (triple fault); resetting the machine\n",
        cpu->apic_id);
    report_guest(cpu);
    processors_stop();
    report_stop_locations(cpu);
    stop_and_reset_machine(cpu);
}
