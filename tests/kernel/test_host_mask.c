/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `host-mask-pmi:SKID`: a PMI of the guest's that arrives at each instruction of an exit for host
 * work (the emulator's PMIs come SKID instructions after the overflow). Its delivery has masked
 * LVTPC, and so the guest's handler has to find it, which comes behind the entry; and the host has
 * its PMIs.
 * SDM Vol. 3, "Local Vector Table"; thesis, section 3.2.2.
 */
#include "host.h"

#include "console/log.h"
#include "hypercall.h"

#define BRANCHES 20000
#define PERIOD 1000
#define LINGER 1000

static uint64_t masked;

static void look(void) { masked += (apic_read_lvtpc() & LVT_MASKED) != 0; }

/* Executes `count` instructions, and one or two more. */
static void spend(uint64_t count)
{
    uint64_t rounds = count / 2;

    if (count % 2 != 0)
        __asm__ volatile("nop");
    __asm__ volatile("1: dec %0\n\t"
                     "jns 1b"
                     : "+r"(rounds)
                     :
                     : "cc");
}

void test_host_mask_pmi(const struct job *job)
{
    uint64_t skid = job->number[0], wrong = 0, lost = 0, unmasked = 0, pmis = 0;

    if (!hypervisor_offers(job, HYPERCALL_HOST_WORK))
        return;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    uint64_t wanted = hypercall_all(HYPERCALL_HOST_WORK, BRANCHES, PERIOD, 0).rax;
    for (uint64_t before = 0; before < skid; before++) {
        uint64_t nmis = nmi.count;
        wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, FIXED_COUNTER_0);
        apic_write_lvtpc(LVT_NMI);
        nmi.action = look;
        masked = 0;
        wrmsr(IA32_FIXED_CTR_CTRL, FIXED_0_OS_PMI);
        wrmsr(IA32_FIXED_CTR0, COUNTER_MASK); /* one instruction from its overflow */
        wrmsr(IA32_PERF_GLOBAL_CTRL, FIXED_COUNTER_0);
        spend(before);
        uint64_t host = hypercall_all(HYPERCALL_HOST_WORK, BRANCHES, PERIOD, 0).rax;
        linger(LINGER);
        wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
        nmi.action = NULL;
        wrong += nmi.count - nmis != 1 || masked != 1 || host != wanted;
        lost += nmi.count == nmis;
        unmasked += masked == 0;
        pmis += host != wanted;
    }
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, FIXED_COUNTER_0);
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
    if (wrong != 0)
        tap_note("%lu of %lu wrong: no NMI %lu, LVTPC not masked %lu, not %lu PMIs of the host %lu",
                 wrong, skid, lost, unmasked, wanted, pmis);
    log_printf("host: name=%s found=%lu wrong=%lu\n", job->name, skid - wrong, wrong);
    tap_result(wrong == 0, job->name, NULL);
}
