/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every register of the PMU by its index, whichever this processor has: how many can be read, and
 * whether GLOBAL_CTRL takes the bits of all counters. SDM Vol. 4, "Architectural MSRs".
 */
#include "kernel.h"

#include "log.h"
#include "msr.h"
#include "x86.h"

#define LEAF_PMU 0x0a
#define LEAF_PMU_EXTENSION 0x23
#define EXTENSION_COUNTERS BIT(1) /* subleaf 1 is there */

static const struct {
    uint32_t first, last;
} blocks[] = {
    {0x0c1, 0x0ca}, {0x186, 0x18f}, {0x1a6, 0x1a7}, {0x309, 0x318}, {0x329, 0x329},
    {0x345, 0x345}, {0x38d, 0x392}, {0x3f1, 0x3f7}, {0x4c1, 0x4ca}, {0x600, 0x600},
    {0x1309, 0x1318}, {0x14c1, 0x14c8}, {0x1900, 0x19ff},
};

/* SDM Vol. 2, "CPUID", leaves 0AH and 23H. */
static uint64_t all_counters(void)
{
    struct cpuid_result leaf = cpuid(LEAF_PMU, 0);
    uint64_t general = BIT(leaf.eax >> 8 & 0xff) - 1, fixed = leaf.ecx | (BIT(leaf.edx & 0x1f) - 1);

    if (cpuid(0, 0).eax >= LEAF_PMU_EXTENSION &&
        cpuid(LEAF_PMU_EXTENSION, 0).eax & EXTENSION_COUNTERS) {
        general = cpuid(LEAF_PMU_EXTENSION, 1).eax;
        fixed = cpuid(LEAF_PMU_EXTENSION, 1).ebx;
    }
    return general | fixed << 32;
}

/* `pmu-registers` */
void test_registers(const struct job *job)
{
    uint64_t there = 0, tried = 0, value, all = all_counters(), enabled = 0;

    region_mark(REGION_REGISTERS, true);
    for (unsigned i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        for (uint32_t msr = blocks[i].first; msr <= blocks[i].last; msr++, tried++)
            there += rdmsr_try(msr, &value);
    region_mark(REGION_REGISTERS, false);
    if (all != 0 && wrmsr_try(IA32_PERF_GLOBAL_CTRL, all)) {
        enabled = rdmsr(IA32_PERF_GLOBAL_CTRL);
        wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    }
    log_printf("registers: name=%s there=%lu tried=%lu all=%lu enabled=%lu\n", job->name, there,
               tried, all, enabled);
    tap_result(enabled == all, job->name, NULL);
}
