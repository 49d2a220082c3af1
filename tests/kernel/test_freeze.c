/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What IA32_DEBUGCTL freezes at a PMI, wherever the PMI lands: before an exit, in it, or behind. In
 * the handler the counter must stand still and no branch be recorded, and with version 4 and later
 * GLOBAL_STATUS must say so. SDM Vol. 3, "Freezing LBR and Performance Counters on PMI".
 */
#include "kernel.h"

#include "console/log.h"
#include "probe.h"

#define FROZEN (GLOBAL_STATUS_CTR_FRZ | GLOBAL_STATUS_LBR_FRZ)
#define FREEZE (DEBUGCTL_LBR | DEBUGCTL_FREEZE_LBRS_ON_PMI | DEBUGCTL_FREEZE_PERFMON_ON_PMI)

static uint64_t handled, running, recording, unmarked, marks;

static void handle_pmi(void)
{
    uint64_t status = rdmsr(IA32_PERF_GLOBAL_STATUS);
    uint64_t count = rdmsr(IA32_FIXED_CTR0);
    bool moved = rdmsr(IA32_FIXED_CTR0) != count;
    uint64_t top = rdmsr(MSR_LASTBRANCH_TOS);

    __asm__ volatile("jmp 1f\n1:"); /* is it recorded? */
    handled++;
    recording += rdmsr(MSR_LASTBRANCH_TOS) != top;
    running += moved;
    unmarked += (status & FROZEN) != marks;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_DEBUGCTL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, FIXED_COUNTER_0 | marks);
    apic_write_lvtpc(LVT_NMI);
}

/* `freeze`: an overflow at every distance from an exit; the emulator decides on the skid. */
void test_freeze(const struct job *job)
{
    uint64_t version = cpuid(0, 0).eax >= CPUID_LEAF_PMU ? cpuid(CPUID_LEAF_PMU, 0).eax & 0xff : 0,
             wrong = 0;
    const char *why;
    bool learnt = probe_learn(PROBE_CPUID, &why); /* natively nothing disturbs a register */

    if (version < 2) {
        tap_skip(job->name, "CPUID shows no PMU that can freeze");
        return;
    }
    handled = running = recording = unmarked = 0;
    marks = version >= 4 ? FROZEN : 0;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, FIXED_COUNTER_0 | marks);
    wrmsr(IA32_FIXED_CTR_CTRL, FIXED_0_OS_PMI);
    apic_write_lvtpc(LVT_NMI);
    for (uint64_t overflow = 1; overflow <= PMI_BEFORE; overflow++) {
        settle();
        wrmsr(IA32_FIXED_CTR0, -overflow & COUNTER_MASK);
        nmi.action = handle_pmi;
        wrmsr(IA32_DEBUGCTL, FREEZE);
        wrong += !probe_once_counted(FIXED_COUNTER_0, (unsigned)overflow) && learnt;
    }
    nmi.action = NULL;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_DEBUGCTL, 0);
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
    log_printf("freeze: name=%s handled=%lu running=%lu recording=%lu unmarked=%lu\n", job->name,
               handled, running, recording, unmarked);
    tap_result(wrong == 0 && handled == PMI_BEFORE && running == 0 && recording == 0 &&
                   unmarked == 0,
               job->name, NULL);
}
