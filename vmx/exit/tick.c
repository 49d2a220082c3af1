/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The tick: the VMX-preemption timer makes the guest exit now and then. Each exit checks for lost
 * host NMIs, so the tick limits how late they are found. The timer starts again at every entry: a
 * tick is needed only if no other exit has made the check. SDM Vol. 3, "VMX-Preemption Timer".
 */
#include "vmx/exit/exit.h"

#include "nmi/host_work.h"
#include "nmi/nmi.h"
#include "vmx/root/end.h"
#include "vmx/root/fault.h"

#define TIMER_MAX 0xffffffffULL

/* Logs a limit of the tick. Hiding MWAIT does not keep a guest from deep C-states if the processor
 * treats reads of some I/O ports as MWAIT. Firmware has set up and locked this treatment, and AML
 * names the ports. Trapping these reads would not help. The guest executes the read with interrupts
 * disabled, and expects an interrupt to end the sleep. Root mode could only complete the read at
 * once, and the guest would spin. SDM Vol. 4, "MSR_PKG_CST_CONFIG_CONTROL",
 * "MSR_PMG_IO_CAPTURE_BASE". */
static void log_io_cstates(void)
{
    uint64_t control, ports;

    if (rdmsr_safe(MSR_PKG_CST_CONFIG_CONTROL, &control) &&
        control & PKG_CST_IO_MWAIT_REDIRECTION && rdmsr_safe(MSR_PMG_IO_CAPTURE_BASE, &ports))
        log_printf("pmuvisor: the tick has no bound for a processor that idles by reads of I/O "
                   "ports from 0x%x on, where it stops as well; processor.max_cstate=1 in append= "
                   "keeps Linux from that\n",
                   (unsigned)(ports & PMG_IO_CAPTURE_LVL_2));
}

void tick_setup(struct cpu *cpu, bool available, uint64_t vmx_misc)
{
    uint32_t ms = cpu->boot->options.tick_ms;
    uint64_t khz = cpu->tsc_khz;

    if (ms == 0)
        return;
    bool first = cpu == get_cpu_by_index(0); /* the other processors would log the same */
    if (!available || khz == 0) {
        if (first)
            log_printf("pmuvisor: no tick: %s; how late a lost host NMI is found has no bound\n",
                       available ? "the TSC's frequency is not known"
                                 : "the processor has no VMX-preemption timer");
        return;
    }
    uint64_t value = ms * khz >> (vmx_misc & VMX_MISC_TIMER_RATE);
    vmcs_write_32(VMCS_PREEMPTION_TIMER_VALUE, (uint32_t)(value < TIMER_MAX ? value : TIMER_MAX));
    vmcs_write_32(VMCS_PIN_BASED_CONTROLS,
                  vmcs_read_32(VMCS_PIN_BASED_CONTROLS) | PIN_PREEMPTION_TIMER);
    cpu->tick.runs = true;
    if (first) {
        log_printf(
            "pmuvisor: tick every %u ms; MONITOR/MWAIT are hidden, because the timer stops in "
            "C-states deeper than C2\n",
            ms);
        log_io_cstates();
    }
}

bool tick_schedule_host_work(struct cpu *cpu, uint64_t branches, uint64_t period)
{
    if (!cpu->tick.runs)
        return false;
    cpu->tick.branches = branches;
    cpu->tick.period = period;
    return true;
}

static void run_waiting_host_work(struct cpu *cpu)
{
    struct host_work work = {.branches = cpu->tick.branches, .period = cpu->tick.period};

    cpu->tick.branches = 0;
    if (host_work_run(cpu, &work))
        log_printf("pmuvisor: host work at the tick: %lu branches, %lu counted, %lu PMIs\n",
                   work.branches, work.counted, work.pmis);
}

void exit_tick(struct cpu *cpu)
{
    if (cpu->tick.branches != 0)
        run_waiting_host_work(cpu);
    /* vmx_exit() has already handled cpu->nmi.notes. The platform's port is checked at each tick,
     * because the port is too slow to read at every exit. */
    if (platform_nmi_pending(cpu))
        (void)nmi_claim(cpu, FOUND_LATE, vmcs_read_natural(VMCS_GUEST_RIP), false);
}
