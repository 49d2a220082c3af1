/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Hypercalls that must be refused: wrong numbers, wrong arguments, a state in which host work is
 * impossible, and the test build's numbers in another build. Each changes RAX alone.
 */
#include "host.h"

#include "hypercall.h"
#include "tests/hooks/hooks.h"

#define REGISTERS HYPERCALL_REGISTERS
#define FILL 0x0123456789abcdefULL
#define BRANCHES 20000
#define PERIOD 1000
#define TOO_MANY ((1ULL << 40) + 1)
#define PERIOD_MIN 100
#define TOO_MANY_PMIS (((1ULL << 20) + 1) * PERIOD_MIN)
#define PERIOD_TOO_SHORT 99
#define NO_REASON 1000
#define EVENT_BRANCHES 0x4100c4 /* enabled, at no privilege level: it keeps its count */
#define COUNT 0x123456

enum { RAX, RBX, RCX, RDX };

static const uint32_t pmu_msrs[] = {IA32_PERFEVTSEL0, IA32_PMC0, IA32_PERF_GLOBAL_CTRL,
                                    IA32_PERF_GLOBAL_STATUS, IA32_DEBUGCTL};

static bool good;

static void expect(uint64_t number, const char *what, uint64_t found, uint64_t wanted)
{
    if (found == wanted)
        return;
    if (good)
        tap_note("hypercall 0x%lx: %s: found 0x%lx, wanted 0x%lx", number, what, found, wanted);
    good = false;
}

/* The call gives `error` and leaves every other register, LVTPC and the PMU as they were. */
static void refused(uint64_t number, uint64_t rbx, uint64_t rcx, uint64_t rdx, int64_t error)
{
    uint64_t in[REGISTERS] = {number, rbx, rcx, rdx}, out[REGISTERS], msrs[LENGTH_OF(pmu_msrs)];
    uint32_t lvtpc = apic_read_lvtpc();

    for (unsigned i = RDX + 1; i < REGISTERS; i++)
        in[i] = FILL * (i + 1);
    for (unsigned i = 0; i < REGISTERS; i++)
        out[i] = in[i];
    for (unsigned i = 0; i < LENGTH_OF(pmu_msrs); i++)
        msrs[i] = rdmsr(pmu_msrs[i]);
    hypercall_whole(out);
    expect(number, "result", out[RAX], (uint64_t)error);
    for (unsigned i = RAX + 1; i < REGISTERS; i++)
        expect(number, "a register", out[i], in[i]);
    for (unsigned i = 0; i < LENGTH_OF(pmu_msrs); i++)
        expect(number, "an MSR of the PMU", rdmsr(pmu_msrs[i]), msrs[i]);
    expect(number, "LVTPC", apic_read_lvtpc(), lvtpc);
}

/* The counter of another owner than the host, which must find it as it left it. */
static void occupy(bool on)
{
    wrmsr(IA32_PERFEVTSEL0, on ? EVENT_BRANCHES : 0);
    wrmsr(IA32_PMC0, on ? COUNT : 0);
    wrmsr(IA32_PERF_GLOBAL_CTRL, on);
}

void test_hypercall(const struct job *job)
{
    static const uint64_t numbers[] = {0, 12, 32, (1ULL << 32) + HYPERCALL_STATISTICS, ~0ULL};

    if (!hypervisor_offers(job, HYPERCALL_HOST_WORK))
        return;
    good = true;
    occupy(true);
    for (unsigned i = 0; i < LENGTH_OF(numbers); i++)
        refused(numbers[i], FILL, ~FILL, FILL << 1, HYPERCALL_E_NUMBER);
    refused(HYPERCALL_STATISTICS, NO_REASON, ~FILL, FILL, HYPERCALL_E_ARGUMENT);
    refused(HYPERCALL_STATISTICS, ~0ULL - 1, ~FILL, FILL, HYPERCALL_E_ARGUMENT);
    refused(HYPERCALL_HOST_WORK, 0, PERIOD, 0, HYPERCALL_E_ARGUMENT);
    refused(HYPERCALL_HOST_WORK, TOO_MANY, PERIOD, 0, HYPERCALL_E_ARGUMENT);
    refused(HYPERCALL_HOST_WORK, BRANCHES, PERIOD_TOO_SHORT, 0, HYPERCALL_E_ARGUMENT);
    refused(HYPERCALL_HOST_WORK, BRANCHES, TOO_MANY, 0, HYPERCALL_E_ARGUMENT);
    refused(HYPERCALL_HOST_WORK, 0, PERIOD, HOST_WORK_AT_TICK, HYPERCALL_E_ARGUMENT);
    refused(HYPERCALL_HOST_WORK, TOO_MANY_PMIS, PERIOD_MIN, 0, HYPERCALL_E_ARGUMENT);
    refused(HYPERCALL_HOST_WORK, TOO_MANY_PMIS, PERIOD_MIN, HOST_WORK_AT_TICK,
            HYPERCALL_E_ARGUMENT);
    /* Without a tick there is none to leave it to; and it needs a PMU of version 4. */
    bool can = (cpuid(CPUID_LEAF_PMU, 0).eax & 0xff) >= 4;
    refused(HYPERCALL_HOST_WORK, BRANCHES, PERIOD, HOST_WORK_AT_TICK,
            can ? HYPERCALL_E_STATE : HYPERCALL_E_SUPPORT);
    occupy(false);
    tap_result(good, job->name, NULL);
}

/* SDM Vol. 3, "Local APIC State After It Has Been Software Disabled": no LVT can be unmasked. */
void test_hypercall_apic(const struct job *job)
{
    if (!hypervisor_offers(job, HYPERCALL_HOST_WORK))
        return;
    good = true;
    occupy(true);
    uint32_t lvtpc = apic_read_lvtpc();
    apic_write_lvtpc(LVT_NMI);
    apic_software_enable(false);
    expect(HYPERCALL_HOST_WORK, "LVTPC of a disabled APIC", apic_read_lvtpc(),
           LVT_NMI | LVT_MASKED);
    refused(HYPERCALL_HOST_WORK, BRANCHES, PERIOD, 0, HYPERCALL_E_STATE);
    apic_software_enable(true);
    apic_write_lvtpc(lvtpc);
    int64_t pmis = (int64_t)hypercall_all(HYPERCALL_HOST_WORK, BRANCHES, PERIOD, 0).rax;
    expect(HYPERCALL_HOST_WORK, "PMIs, enabled again", (uint64_t)pmis, BRANCHES / PERIOD);
    occupy(false);
    tap_result(good, job->name, NULL);
}

/* One of the registers that host work writes is not there. */
void test_hypercall_absent(const struct job *job)
{
    if (!hypervisor_offers(job, HYPERCALL_HOST_WORK))
        return;
    good = true;
    int64_t result = (int64_t)hypercall_all(HYPERCALL_HOST_WORK, BRANCHES, PERIOD, 0).rax;
    expect(HYPERCALL_HOST_WORK, "result", (uint64_t)result, (uint64_t)HYPERCALL_E_SUPPORT);
    tap_result(good, job->name, NULL);
}

void test_hypercall_hidden(const struct job *job)
{
    if (!hypervisor_offers(job, HYPERCALL_HOST_WORK))
        return;
    good = true;
    for (uint64_t n = HYPERCALL_TEST_REQUEST_WORD; n <= HYPERCALL_TEST_LAST; n++)
        expect(n, "CPUID shows it", cpuid(CPUID_HV_FEATURES, 0).ecx >> n & 1, 0);
    /* Where they are offered, they would be carried out. */
    for (uint64_t n = HYPERCALL_TEST_REQUEST_WORD; good && n <= HYPERCALL_TEST_LAST; n++)
        refused(n, FILL, ~FILL, FILL << 1, HYPERCALL_E_NUMBER);
    tap_result(good, job->name, NULL);
}
