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

/* Returns whether the PMU's registers belong to the guest. If so, they hold values that a second
 * user would overwrite. */
static bool is_pmu_passed_through(const struct cpu *cpu)
{
    const struct cpu_demand *d = demand_of(cpu);

    return d->open != NULL ? d->passes : cpu->boot->options.policy != POLICY_INTERCEPT;
}

static void second_user_tick(struct cpu *cpu)
{
    demand_of(cpu)->under_second_user(cpu);
    if (!is_pmu_passed_through(cpu))
        return;
    bool whole = second_user == SECOND_USER_WHOLE;
    nmi_hold(cpu);
    pmu_context_switch(cpu, cpu->pmu.guest, cpu->pmu.host, whole);
    pmu_context_switch(cpu, cpu->pmu.host, cpu->pmu.guest, whole);
    nmi_release(cpu);
}

void second_user_setup(struct cpu *cpu)
{
    if (second_user == SECOND_USER_OFF || !cpu->boot->options.pmu)
        return;
    demand_of(cpu)->under_second_user = cpu->handlers[EXIT_REASON_PREEMPTION_TIMER];
    cpu->handlers[EXIT_REASON_PREEMPTION_TIMER] = second_user_tick;
}
