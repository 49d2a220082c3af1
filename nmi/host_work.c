/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Host work on the PMU, in exit context. NMIs that arrive during host work are handled in
 * nmi/source.c. SDM Vol. 3, "Performance Monitoring", "Freezing LBR and Performance Counters on
 * PMI". Thesis, sections 3.1, 3.2.2 and 4.4.2.
 */
#include "nmi/host_work.h"

#include "apic/apic.h"
#include "pmu/pmu.h"

#define EVENT_BRANCHES 0xc4 /* all branch instructions retired; an architectural event */
#define LATE_PMI_READS 1000 /* reads to wait for a PMI that may still be on its way */

/* Executes exactly `branches` branch instructions, plus the call and return around them. Returns
 * the address of the branch instruction. */
static uint64_t execute_branches(uint64_t branches)
{
    uint64_t address;

    __asm__ volatile("lea 2f(%%rip), %1\n"
                     "1: dec %0\n"
                     "2: jnz 1b"
                     : "+r"(branches), "=&r"(address)
                     :
                     : "cc", "memory"); /* "memory" keeps `counting` true during the loop */
    return address;
}

static void count_branches(struct host_work *work)
{
    wrmsr(IA32_PERFEVTSEL0, EVENT_BRANCHES | EVTSEL_OS | EVTSEL_INT | EVTSEL_EN);
    wrmsr(IA32_A_PMC0, -work->period & COUNTER_BITS);
    wrmsr(IA32_DEBUGCTL, DEBUGCTL_FREEZE_PERFMON_ON_PMI);
    if (work->records != NULL)
        wrmsr(work->records->control, work->records->on);
    work->counting = true;
    wrmsr(IA32_PERF_GLOBAL_CTRL, HOST_GLOBAL_CTRL);
    uint64_t address = execute_branches(work->branches);
    work->counting = false;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    if (work->records != NULL)
        wrmsr(work->records->control, 0);
    for (unsigned i = 0; i < LATE_PMI_READS && rdmsr(IA32_PERF_GLOBAL_STATUS) & STATUS_COUNTER_0;
         i++)
        ;
    wrmsr(IA32_DEBUGCTL, 0);
    work->counted = work->pmis * work->period + ((rdmsr(IA32_PMC0) + work->period) & COUNTER_BITS);
    work->own = work->records != NULL ? branch_records_count_from(work->records, address) : 0;
}

/* Returns the guest's LVTPC. The guest's counters have stopped, but a PMI that a counter raised
 * just before may still be on its way. When that PMI arrives, it masks LVTPC. The returned value
 * must include this mask, because host work writes the value back at its end. A counter that has
 * overflowed while LVTPC is unmasked is the sign of such a PMI, so this function then waits for the
 * PMI. No PMI comes if the guest has handled the overflow in another way or does not want the PMI.
 * nmi_hold() keeps the NMI for the guest meanwhile. */
static uint32_t read_guest_lvtpc(void)
{
    uint32_t lvtpc = apic_lvtpc_read();

    for (unsigned i = 0; i < LATE_PMI_READS && !(lvtpc & LVT_MASKED) &&
                         rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_PMI;
         i++)
        lvtpc = apic_lvtpc_read();
    return lvtpc;
}

bool host_work_run(struct cpu *cpu, struct host_work *work)
{
    if (!apic_is_software_enabled()) {
        if (may_log_refusal(cpu))
            log_printf(
                "pmuvisor: host work refused: the guest's local APIC is disabled (SVR bit 8 is "
                "0, wanted 1), so LVTPC cannot be unmasked; enable it in the guest\n");
        return false;
    }
    bool mask_step = cpu->boot->options.bookkeeping & BOOKKEEPING_MASK;

    nmi_hold(cpu);
    uint32_t lvtpc = read_guest_lvtpc();
    pmu_context_switch(cpu, cpu->pmu.guest, cpu->pmu.host, work->records != NULL);
    /* From here on, the NMI handler unmasks LVTPC after each PMI (host_work_pmi_claim()). */
    cpu->pmu.host_work = work;
    if (mask_step)
        apic_lvtpc_write(LVT_DELIVERY_NMI);
    count_branches(work);
    cpu->pmu.host_work = NULL;
    if (mask_step)
        apic_lvtpc_write(lvtpc);
    pmu_context_switch(cpu, cpu->pmu.host, cpu->pmu.guest, work->records != NULL);
    nmi_release(cpu);
    return true;
}
