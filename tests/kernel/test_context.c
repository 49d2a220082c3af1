/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The PMU's registers are each guest's own: the guest writes one, somebody else on this processor
 * writes another value (host work, or a second guest in a VMCS of its own), and the guest reads its
 * own again. Thesis, section 4.4.1. SDM Vol. 3, "Performance Monitoring".
 */
#include "host.h"

#include "console/log.h"
#include "hypercall.h"
#include "tests/hooks/hooks.h"

#define WITHOUT_SWITCH 1
#define WORK_BRANCHES 5500 /* none of the last 32 is near a PMI */
#define WORK_PERIOD 1000
#define STATUS_BITS (BIT(1) | GLOBAL_STATUS_LBR_FRZ) /* counter 1: host work uses counter 0 */
#define OWN_RECORDS_MIN (LBR_RECORDS - 2) /* beside a return and what the compiler makes of it */

/* Any two values that no bit forbids; nothing counts with them, GLOBAL_CTRL being 0. */
static const struct {
    uint32_t msr, count;
    uint64_t ours, others;
    uint32_t more; /* than 1, from one to the next */
} registers[] = {
    {IA32_PERFEVTSEL0, 10, 0x4100c0, 0x4200c4, 0},
    {IA32_A_PMC0, 10, 0x123456789abc, 0xcba987654321, 0},
    {IA32_FIXED_CTR_CTRL, 1, 0x111, 0x222, 0},
    {IA32_FIXED_CTR0, 16, 0x0fedcba98765, 0x56789abcdef0, 0},
    {IA32_DS_AREA, 1, 0xffff888000001000, 0xffff888000002000, 0},
    {MSR_OFFCORE_RSP_0, 2, 0x10001, 0x20002, 0},
    {MSR_PEBS_LD_LAT, 1, 0x11, 0x22, 0},
    {MSR_PEBS_FRONTEND, 1, 0x100411, 0x100412, 0},
    {IA32_PEBS_ENABLE, 1, 1, 2, 0},
    {MSR_PEBS_DATA_CFG, 1, 1, 2, 0},
    {MSR_PERF_METRICS, 1, 0x01020304, 0x04030201, 0},
    {MSR_LBR_SELECT, 1, 0x3c4, 0x3c5, 0},
    {MSR_LASTBRANCH_TOS, 1, 3, 5, 0},
    {MSR_LASTBRANCH_0_FROM_IP, LBR_RECORDS, 0x401000, 0xffffffff81001000, 0},
    {MSR_LASTBRANCH_0_TO_IP, LBR_RECORDS, 0x402000, 0xffffffff81002000, 0},
    {MSR_LBR_INFO_0, LBR_RECORDS, 0x100, 0x200, 0},
    {IA32_LBR_FROM0, LBR_RECORDS, 0x403000, 0xffffffff81003000, 0},
    {IA32_LBR_TO0, LBR_RECORDS, 0x404000, 0xffffffff81004000, 0},
    {IA32_LBR_INFO0, LBR_RECORDS, 0x300, 0x400, 0},
    {IA32_LBR_DEPTH, 1, 8, 16, 0}, /* behind them: the other guest keeps its depth */
    {IA32_RTIT_OUTPUT_BASE, 1, 0x100000, 0x200000, 0},
    {IA32_RTIT_OUTPUT_BASE + 1, 1, 0xfff, 0x1fff, 0},
    {IA32_RTIT_CR3_MATCH, 1, 0x300000, 0x400000, 0},
    {IA32_RTIT_ADDR0_A, 8, 0x405000, 0xffffffff81005000, 0},
    {IA32_PMC_GP0_CTR, 32, 0x1fedcba98765, 0x66789abcdef0, 3},
    {IA32_PMC_GP0_CTR + 1, 32, 0x4100c0, 0x4200c4, 3},
    {IA32_PMC_FX0_CTR, 32, 0x2fedcba98765, 0x76789abcdef0, 3},
};

/* By the job's word. */
static const struct other {
    char letter;
    uint32_t hypercall;
    uint64_t how; /* RDX */
    uint32_t region;
} users[] = {
    {'w', HYPERCALL_HOST_WORK, 0, REGION_WORK},
    {'r', HYPERCALL_HOST_WORK, HOST_WORK_RECORDS, REGION_WORK_RECORDS},
    {'g', HYPERCALL_TEST_OTHER_GUEST, 0, REGION_OTHER_GUEST},
    {'b', HYPERCALL_TEST_OTHER_GUEST, WITHOUT_SWITCH, REGION_OTHER_GUEST_BARE},
};

static uint64_t checked, absent, fixed, kept, theirs;

static bool work_runs(const struct other *other)
{
    region_mark(other->region, true);
    struct hypercall_registers r = hypercall_all(HYPERCALL_HOST_WORK, WORK_BRANCHES, WORK_PERIOD,
                                                 other->how);
    region_mark(other->region, false);
    if (r.rax == WORK_BRANCHES / WORK_PERIOD &&
        (other->how == 0 || (r.rcx >= OWN_RECORDS_MIN && r.rcx <= LBR_RECORDS)))
        return true;
    tap_note("host work gave %ld, and %lu branch records of its own", r.rax, r.rcx);
    return false;
}

static bool other_runs(const struct other *other, uint32_t msr, uint64_t value)
{
    if (other->hypercall == HYPERCALL_HOST_WORK)
        return work_runs(other);
    uint32_t region = other->region;
    if (rdmsr(IA32_PERF_GLOBAL_STATUS) != 0)
        region = REGION_OTHER_GUEST_STATUS;
    region_mark(region, true);
    struct hypercall_registers r = hypercall_all(HYPERCALL_TEST_OTHER_GUEST, msr, value,
                                                 other->how);
    region_mark(region, false);
    if (r.rax == 0 && (r.rbx == value || msr == IA32_PERF_GLOBAL_STATUS_RESET))
        return true;
    tap_note("MSR 0x%x: the second guest gave %ld and read 0x%lx, wanted 0x%lx", msr, r.rax, r.rbx,
             value);
    return false;
}

static void judge(uint32_t msr, uint64_t now, uint64_t ours, uint64_t others)
{
    checked++;
    kept += now == ours;
    theirs += now == others;
    if (now != ours && checked - kept <= 3)
        tap_note("MSR 0x%x: read 0x%lx, wrote 0x%lx", msr, now, ours);
}

static bool check(const struct other *other, uint32_t msr, uint64_t ours, uint64_t others)
{
    uint64_t before, now;

    if (!rdmsr_try(msr, &before)) {
        absent++;
        return true;
    }
    if (!wrmsr_try(msr, ours)) {
        fixed += wrmsr_try(msr, before); /* there, but it takes one value only */
        return true;
    }
    bool ran = other_runs(other, msr, others);
    judge(msr, rdmsr_try(msr, &now) ? now : ~ours, ours, others);
    wrmsr(msr, before);
    return ran;
}

/* Overflow bits have registers of their own to set and clear them. */
static bool check_status(const struct other *other)
{
    wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_BITS);
    bool ran = other_runs(other, IA32_PERF_GLOBAL_STATUS_RESET, STATUS_BITS);
    judge(IA32_PERF_GLOBAL_STATUS, rdmsr(IA32_PERF_GLOBAL_STATUS), STATUS_BITS, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, STATUS_BITS);
    return ran;
}

/* `context:work`, `context:records` (work that records branches), `context:guest`, `context:bare`
 * (a second guest without the switch: every one of the registers then has the other guest's value,
 * and the test fails). */
void test_context(const struct job *job)
{
    const struct other *other = users;
    bool ran = true;

    while (other < users + LENGTH_OF(users) - 1 && other->letter != job->word[0])
        other++;
    if (!hypervisor_offers(job, other->hypercall))
        return;
    checked = absent = fixed = kept = theirs = 0;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, rdmsr(IA32_PERF_GLOBAL_STATUS));
    for (unsigned i = 0; i < LENGTH_OF(registers); i++)
        for (uint32_t n = 0; n < registers[i].count; n++)
            ran = check(other, registers[i].msr + n * (1 + registers[i].more),
                        registers[i].ours + n, registers[i].others + n) &&
                  ran;
    ran = check_status(other) && ran;
    /* These two are the VMCS's: kept with the switch and without. */
    uint64_t checked_here = checked, kept_here = kept;
    ran = check(other, IA32_PERF_GLOBAL_CTRL, 0x3, 0x5) && ran;
    ran = check(other, IA32_DEBUGCTL, BIT(12), BIT(11)) && ran;
    bool both = kept - kept_here == checked - checked_here && checked - checked_here == 2;
    log_printf("context: name=%s checked=%lu kept=%lu others=%lu absent=%lu fixed=%lu vmcs=%d "
               "ran=%d\n",
               job->name, checked_here, kept_here, theirs, absent, fixed, both, ran);
    tap_result(ran && both && kept == checked, job->name, NULL);
}
