/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A PMU of version 6 with more counters than usual: the knobs of tests/e2e/test_emulator.py.
 * SDM Vol. 2, "CPUID"; Vol. 4, "Architectural MSRs".
 */
#include "emulator.h"

#define GENERAL 0xcfu
#define FIXED 0x2bu
#define CPUID_PERFMON_EXTENSION 0x23

static void check_enumeration(void)
{
    struct cpuid_result leaf = cpuid(CPUID_LEAF_PMU, 0);

    check_equal("version", leaf.eax & 0xff, 6);
    check_equal("general counters without a gap", leaf.eax >> 8 & 0xff, 4);
    check_equal("fixed counters, mask", leaf.ecx, FIXED);
    check_equal("fixed counters without a gap", leaf.edx & 0x1f, 2);
    check_equal("last leaf", cpuid(0, 0).eax, CPUID_PERFMON_EXTENSION);
    check_equal("a leaf before it is reserved", cpuid(0x22, 0).eax, 0);
    check_equal("leaf 7, subleaf 1", cpuid(7, 1).eax & 0x100, 0x100);
    leaf = cpuid(CPUID_PERFMON_EXTENSION, 1);
    check_equal("leaf 23H, general", leaf.eax, GENERAL);
    check_equal("leaf 23H, fixed", leaf.ebx, FIXED);
}

static void check_registers(void)
{
    for (uint32_t n = 0; n < 16; n++) {
        bool general = GENERAL >> n & 1, fixed = FIXED >> n & 1;
        check_equal("general counter", !rdmsr_faults(IA32_PMC_GP0_CTR + n * PMC_STEP), general);
        check_equal("its CFG_A", !rdmsr_faults(IA32_PMC_GP0_CTR + 1 + n * PMC_STEP), general);
        check_equal("RDPMC", !rdpmc_faults(n), general);
        check_equal("fixed counter", !rdmsr_faults(IA32_PMC_FX0_CTR + n * PMC_STEP), fixed);
        check_equal("RDPMC, fixed", !rdpmc_faults((uint32_t)RDPMC_FIXED | n), fixed);
    }
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PMC_GP0_CTR + 7 * PMC_STEP, BIT(40));
    check_equal("two names, general", rdmsr(IA32_PMC0 + 7), BIT(40));
    wrmsr(IA32_FIXED_CTR0 + 5, 5);
    check_equal("two names, fixed", rdmsr(IA32_PMC_FX0_CTR + 5 * PMC_STEP), 5);
    check_that("GLOBAL_CTRL bit 4 faults", wrmsr_faults(IA32_PERF_GLOBAL_CTRL, BIT(4)));
    check_that("GLOBAL_CTRL bit 34 faults", wrmsr_faults(IA32_PERF_GLOBAL_CTRL, BIT(34)));
    check_that("GLOBAL_CTRL of all counters does not",
               !wrmsr_faults(IA32_PERF_GLOBAL_CTRL, (uint64_t)FIXED << 32 | GENERAL));
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
}

/* The processor has 5-level paging, so addresses have 57 bits even while paging has 4 levels. */
static void check_debug_store(void)
{
    check_that("IA32_DS_AREA of 57 bits", !wrmsr_faults(IA32_DS_AREA, BIT(47)));
    check_that("IA32_DS_AREA of 58 bits faults", wrmsr_faults(IA32_DS_AREA, BIT(56)));
    wrmsr(IA32_DS_AREA, 0);
}

static void check_overflow(void)
{
    apic_write_lvtpc(LVT_NMI);
    wrmsr(IA32_PMC_GP0_CTR + 1 + 7 * PMC_STEP,
          EVENT_INSTRUCTIONS | EVTSEL_OS | EVTSEL_INT | EVTSEL_EN);
    wrmsr(IA32_PMC_GP0_CTR + 7 * PMC_STEP, BIT(48) - 10);
    wrmsr(IA32_FIXED_CTR_CTRL, UINT64_C(1) << 3 * 4);
    wrmsr(IA32_FIXED_CTR0 + 3, 0);
    wrmsr(IA32_PERF_GLOBAL_CTRL, BIT(7) | BIT(35));
    for (unsigned n = 0; n < 100; n++)
        __asm__ volatile("nop");
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    check_equal("NMIs", nmi.count, 1);
    check_equal("STATUS", rdmsr(IA32_PERF_GLOBAL_STATUS), BIT(7));
    check_that("fixed counter 3 counts", rdmsr(IA32_FIXED_CTR0 + 3) >= 100);
}

void emulator_shape(void)
{
    /* The emulator takes this for a kernel's start: from now on MSRs that do not exist fault. */
    wrmsr(IA32_LSTAR, 0);
    check_enumeration();
    check_registers();
    check_debug_store();
    check_overflow();
}
