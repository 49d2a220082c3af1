/* SPDX-License-Identifier: BSD-2-Clause
 *
 * second_user=: at each tick, does the PMU work of a switch to another virtual machine and back. So
 * the boot of a single guest shows what the switch costs. The second user does nothing with the
 * PMU. The switch is host work (nmi/host_work.c). The guest's NMIs are held during the switch,
 * because the PMU's status, which shows whether an NMI is a PMI, belongs to the second user at that
 * time. After the guest's registers are restored, nmi_release() lets the guest's NMIs through.
 * LVTPC is not touched. Nothing counts in root mode. Thesis, section 3.1.
 */
#include "experiments/demand/hypervisor/demand.h"

#include "nmi/nmi.h"

uint32_t second_user;

void second_user_switch(struct cpu *cpu)
{
    bool whole = second_user == SECOND_USER_WHOLE;

    nmi_hold(cpu);
    pmu_context_switch(cpu, cpu->pmu.guest, cpu->pmu.host, whole);
    pmu_context_switch(cpu, cpu->pmu.host, cpu->pmu.guest, whole);
    nmi_release(cpu);
}
