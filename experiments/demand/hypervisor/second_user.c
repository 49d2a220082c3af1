/* SPDX-License-Identifier: BSD-2-Clause
 *
 * second_user=: does with the PMU, at each tick, what a switch to another virtual machine and back
 * does, so that one guest's boot shows the price of the switch. The second user does nothing with
 * the PMU. The switch is host work (nmi/host_work.c): the guest's NMIs are held during it, because
 * the status that reveals a PMI is the second user's. nmi_release() lets the guest have its NMIs
 * when its registers are back. LVTPC is not touched. Nothing counts in root mode. Thesis, section
 * 3.1.
 */
#include "experiments/demand/hypervisor/demand.h"

#include "nmi/nmi.h"

/* Whether the registers are the guest's: they hold values that a second user would overwrite. */
static bool pass(const struct cpu *cpu)
{
    const struct cpu_demand *d = demand_of(cpu);

    return d->open != NULL ? d->passes : cpu->boot->options.policy != POLICY_INTERCEPT;
}

static void second_user_tick(struct cpu *cpu)
{
    demand_of(cpu)->under_second_user(cpu);
    if (!pass(cpu))
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
