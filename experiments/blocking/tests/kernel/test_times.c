/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `times:HOST`: one PMI, whose handler acknowledges it, unmasks LVTPC and returns. HOST 1: before
 * that it has the hypervisor do work of its own, which has PMIs, too. The emulator's log of the
 * region has what was blocked and masked when. Thesis, sections 2.6.2 and 3.2.2, and its program
 * A.2.
 */
#include "host.h"

#include "hypercall.h"
#include "msr.h"
#include "x86.h"

#define REGION_TIMES 2701
#define FIXED_COUNTER_0 BIT(32) /* in GLOBAL_CTRL and GLOBAL_STATUS */
#define FIXED_0_OS 1
#define FIXED_0_PMI BIT(3)
#define COUNTER_MASK BITS(47, 0)
#define PERIOD 100
#define PMI_WAIT 1000
#define HOST_BRANCHES 200
#define HOST_PERIOD 100

static bool with_host;
static uint64_t host_pmis;

static void handle(void)
{
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    if (with_host)
        host_pmis = hypercall_all(HYPERCALL_HOST_WORK, HOST_BRANCHES, HOST_PERIOD, 0).rax;
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, FIXED_COUNTER_0);
    apic_write_lvtpc(LVT_NMI);
}

void test_times(const struct job *job)
{
    uint64_t before = nmi.count;

    with_host = job->number[0] != 0;
    host_pmis = 0;
    if (with_host && !hypervisor_offers(job, HYPERCALL_HOST_WORK))
        return;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, FIXED_COUNTER_0);
    wrmsr(IA32_FIXED_CTR_CTRL, FIXED_0_OS | FIXED_0_PMI);
    wrmsr(IA32_FIXED_CTR0, -PERIOD & COUNTER_MASK);
    apic_write_lvtpc(LVT_NMI);
    nmi.action = handle;
    region_mark(REGION_TIMES, true);
    wrmsr(IA32_PERF_GLOBAL_CTRL, FIXED_COUNTER_0);
    for (unsigned i = 0; i < PMI_WAIT; i++)
        __asm__ volatile("nop");
    region_mark(REGION_TIMES, false);
    nmi.action = NULL;
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
    tap_note("PMIs of the guest %lu, of the host %lu", nmi.count - before, host_pmis);
    tap_result(nmi.count - before == 1, job->name, NULL);
}
