/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Counters, overflow, delivery and freeze, as software sees them. SDM Vol. 3, "Performance
 * Monitoring".
 */
#include "emulator.h"

#include "console/log.h"

#define SLED_LENGTH 64
/* Intel PT's ToPA, the uncore, the PEBS buffer. */
#define STATUS_OTHER_PMIS (BIT(55) | BIT(61) | BIT(62))

/* Stops all counters and clears their state. */
static void pmu_clear(void)
{
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    for (uint32_t n = 0; n < 4; n++) {
        wrmsr(IA32_PERFEVTSEL0 + n, 0);
        wrmsr(IA32_A_PMC0 + n, 0);
    }
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    wrmsr(IA32_DEBUGCTL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, rdmsr(IA32_PERF_GLOBAL_STATUS));
    nmi.count = 0;
    pmi_interrupts = 0;
}

/* Runs a loop of `rounds` rounds, each of an instruction and a branch. Returns the count of the
 * counter that RDPMC's `index` names. */
static __attribute__((noinline)) uint64_t count_loop(uint32_t index, uint64_t rounds)
{
    uint64_t before = rdpmc(index);

    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
    return rdpmc(index) - before;
}

/* Runs SLED_LENGTH one-byte instructions. Returns the first one's address. */
static uint64_t run_sled(void)
{
    uint64_t start;

    __asm__ volatile("lea 1f(%%rip), %0\n"
                     "1:\n\t"
                     ".rept 64\n\tnop\n\t.endr"
                     : "=r"(start)
                     :
                     : "memory");
    return start;
}

static void check_enumeration(void)
{
    struct cpuid_result leaf = cpuid(CPUID_LEAF_PMU, 0);

    check_equal("PMU version", leaf.eax & 0xff, 4);
    check_equal("general counters", leaf.eax >> 8 & 0xff, 4);
    check_equal("their width", leaf.eax >> 16 & 0xff, 48);
    check_equal("fixed counters", leaf.edx & 0x1f, 3);
    check_equal("PERF_CAPABILITIES", rdmsr(IA32_PERF_CAPABILITIES), 0x3005);
}

static void check_reserved(void)
{
    check_that("IA32_DS_AREA, not canonical", wrmsr_faults(IA32_DS_AREA, BIT(47)));
    static const struct {
        uint32_t index;
        uint64_t value;
        const char *name;
    } writes[] = {
        {IA32_PERFEVTSEL0, BIT(32), "PERFEVTSEL0 bit 32 faults"},
        {IA32_FIXED_CTR_CTRL, BIT(12), "FIXED_CTR_CTRL bit 12 faults"},
        {IA32_PERF_GLOBAL_CTRL, BIT(4), "GLOBAL_CTRL bit 4 faults"},
        {IA32_PERF_GLOBAL_STATUS, 0, "GLOBAL_STATUS is read-only"},
        {IA32_A_PMC0, BIT(48), "A_PMC0 bit 48 faults"},
        {IA32_DEBUGCTL, BIT(2), "DEBUGCTL bit 2 faults"},
        {MSR_LBR_SELECT, BIT(10), "LBR_SELECT bit 10 faults"},
    };

    for (unsigned n = 0; n < LENGTH_OF(writes); n++)
        check_that(writes[n].name, wrmsr_faults(writes[n].index, writes[n].value));
    check_that("RDPMC 4 faults", rdpmc_faults(4));
    check_that("RDPMC fixed 3 faults", rdpmc_faults((uint32_t)RDPMC_FIXED | 3));
    check_that("RDPMC 3 does not", !rdpmc_faults(3));
    check_that("RDPMC fixed 2 does not", !rdpmc_faults((uint32_t)RDPMC_FIXED | 2));
}

static void check_exact_counts(void)
{
    uint64_t few, many;

    pmu_clear();
    wrmsr(IA32_PERFEVTSEL0, EVENT_INSTRUCTIONS | EVTSEL_OS | EVTSEL_EN);
    wrmsr(IA32_PERFEVTSEL0 + 1, EVENT_BRANCHES | EVTSEL_OS | EVTSEL_EN);
    wrmsr(IA32_FIXED_CTR_CTRL, 1);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 3 | BIT(32));
    few = count_loop(0, 10);
    many = count_loop(0, 100010);
    check_equal("instructions", many - few, 200000);
    few = count_loop(1, 10);
    many = count_loop(1, 100010);
    check_equal("branches", many - few, 100000);
    few = count_loop((uint32_t)RDPMC_FIXED, 10);
    many = count_loop((uint32_t)RDPMC_FIXED, 100010);
    check_equal("instructions, fixed", many - few, 200000);
    check_equal("GLOBAL_INUSE", rdmsr(IA32_PERF_GLOBAL_INUSE), 3 | BIT(32));
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    few = rdpmc(0);
    check_equal("stopped", rdpmc(0) - few, 0);
}

static void check_caches(void)
{
    static const volatile uint8_t *const ram = (const volatile uint8_t *)FREE_MEMORY;
    const uint64_t lines = 1000, line = 64;
    uint64_t references, misses;

    pmu_clear();
    wrmsr(IA32_PERFEVTSEL0, EVENT_LLC_REFERENCES | EVTSEL_OS | EVTSEL_EN);
    wrmsr(IA32_PERFEVTSEL0 + 1, EVENT_LLC_MISSES | EVTSEL_OS | EVTSEL_EN);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 3);
    for (uint64_t n = 0; n < lines; n++)
        (void)ram[n * line];
    misses = rdpmc(1);
    check_that("first touch misses the LLC", misses >= lines);
    references = rdpmc(0);
    for (uint64_t n = 0; n < lines; n++)
        (void)ram[n * line];
    check_that("the second does not", rdpmc(1) - misses < lines / 10);
    check_that("and hits near the core", rdpmc(0) - references < lines / 10);
}

/* Overflows counter 0 after `after` instructions. Returns the position in the sled at which the NMI
 * came. */
static uint64_t overflow_in_sled(uint64_t after)
{
    uint64_t start;

    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERFEVTSEL0, EVENT_INSTRUCTIONS | EVTSEL_OS | EVTSEL_INT | EVTSEL_EN);
    wrmsr(IA32_A_PMC0, BIT(48) - after);
    nmi.rip = 0;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
    start = run_sled();
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    return nmi.rip - start;
}

/* Checks the delivery in the APIC's current mode. */
static void check_delivery(void)
{
    uint64_t position;

    pmu_clear();
    apic_write_lvtpc(LVT_NMI);
    position = overflow_in_sled(20);
    check_equal("NMIs", nmi.count, 1);
    check_that("the NMI comes in the sled", position < SLED_LENGTH);
    check_equal("STATUS", rdmsr(IA32_PERF_GLOBAL_STATUS), 1);
    check_equal("LVTPC is masked by delivery", apic_read_lvtpc(), LVT_NMI | LVT_MASKED);
    overflow_in_sled(20);
    check_equal("masked: no NMI", nmi.count, 1);
    apic_write_lvtpc(LVT_NMI);
    run_sled();
    check_equal("nothing was held", nmi.count, 1);
    check_equal("one instruction later", overflow_in_sled(21) - position, 1);
    check_equal("NMIs", nmi.count, 2);
    /* tests/e2e/test_emulator.py compares this line between runs with and without a skid. */
    log_printf("emulator: position=%lu\n", position);

    pmu_clear();
    apic_write_lvtpc(PMI_VECTOR);
    overflow_in_sled(20);
    check_equal("fixed: held while interrupts are off", pmi_interrupts, 0);
    open_interrupts();
    check_equal("fixed: delivered", pmi_interrupts, 1);
    check_equal("fixed: LVTPC is masked", apic_read_lvtpc(), PMI_VECTOR | LVT_MASKED);
    check_equal("fixed: no NMI", nmi.count, 0);
}

static void check_freeze(void)
{
    uint64_t frozen;

    pmu_clear();
    apic_write_lvtpc(LVT_NMI);
    wrmsr(IA32_DEBUGCTL, DEBUGCTL_FREEZE_PERFMON_ON_PMI | DEBUGCTL_FREEZE_LBRS_ON_PMI);
    wrmsr(IA32_PERFEVTSEL0, EVENT_INSTRUCTIONS | EVTSEL_OS | EVTSEL_INT | EVTSEL_EN);
    wrmsr(IA32_A_PMC0, BIT(48) - 10);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
    run_sled();
    check_equal("frozen: STATUS", rdmsr(IA32_PERF_GLOBAL_STATUS),
                1 | GLOBAL_STATUS_CTR_FRZ | GLOBAL_STATUS_LBR_FRZ);
    check_equal("frozen: GLOBAL_CTRL stays", rdmsr(IA32_PERF_GLOBAL_CTRL), 1);
    frozen = rdpmc(0);
    run_sled();
    check_equal("frozen: the counter stands", rdpmc(0), frozen);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, 1 | GLOBAL_STATUS_CTR_FRZ | GLOBAL_STATUS_LBR_FRZ);
    run_sled();
    check_that("thawed: the counter runs", rdpmc(0) - frozen >= SLED_LENGTH);
    pmu_clear();
    wrmsr(IA32_PERF_GLOBAL_STATUS_SET, 2);
    check_equal("STATUS_SET", rdmsr(IA32_PERF_GLOBAL_STATUS), 2);
    pmu_clear();
    wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_OTHER_PMIS);
    check_equal("STATUS_SET of PMIs of others", rdmsr(IA32_PERF_GLOBAL_STATUS), STATUS_OTHER_PMIS);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, STATUS_OTHER_PMIS);
    check_equal("and their reset", rdmsr(IA32_PERF_GLOBAL_STATUS), 0);
}

/* The marker raises these PMIs, as a full PEBS buffer does. */
static void check_other_pmis(void)
{
    static const unsigned bits[] = {55, 61, 62};

    pmu_clear();
    for (unsigned n = 0; n < 3; n++) {
        apic_write_lvtpc(LVT_NMI);
        __asm__ volatile("xchg %%bx, %%bx" : : "a"(BIT(bits[n])), "c"(4) : "memory");
        run_sled();
        check_equal("a PMI without a counter", nmi.count, n + 1);
        check_equal("its bit, alone", rdmsr(IA32_PERF_GLOBAL_STATUS), BIT(bits[n]));
        check_equal("LVTPC is masked by it", apic_read_lvtpc(), LVT_NMI | LVT_MASKED);
        wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, BIT(bits[n]));
    }
}

void emulator_pmu(void)
{
    check_enumeration();
    check_reserved();
    check_exact_counts();
    check_caches();
    check_delivery();
    check_that("x2APIC mode", apic_enter_x2());
    check_delivery();
    check_freeze();
    check_other_pmis();
}
