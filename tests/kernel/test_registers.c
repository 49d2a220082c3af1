/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Every register of the PMU by its index, whichever this processor has: how many can be read, which
 * bits GLOBAL_CTRL takes, and what RDPMC gives a user. SDM Vol. 4, "Architectural MSRs"; Vol. 2,
 * "RDPMC".
 */
#include "fuzz.h"
#include "kernel.h"

#include "console/log.h"

#define LEAF_PMU_EXTENSION 0x23
#define EXTENSION_COUNTERS BIT(1) /* subleaf 1 is there */
#define FIXED_COUNTERS BIT(30)    /* of RDPMC's ECX */
#define COUNTED 0x123456

static const struct {
    uint32_t first, last;
} blocks[] = {
    {0x0c1, 0x0ca}, {0x186, 0x18f},   {0x1a6, 0x1a7},   {0x309, 0x318},   {0x329, 0x329},
    {0x345, 0x345}, {0x38d, 0x392},   {0x3e0, 0x3e3},   {0x3f1, 0x3f7},   {0x4c1, 0x4ca},
    {0x600, 0x600}, {0x1309, 0x1318}, {0x1328, 0x1329}, {0x14c1, 0x14c8}, {0x1900, 0x19ff},
};

/* SDM Vol. 2, "CPUID", leaves 0AH and 23H. */
static uint64_t all_counters(void)
{
    struct cpuid_result leaf = cpuid(CPUID_LEAF_PMU, 0);
    uint64_t general = BIT(leaf.eax >> 8 & 0xff) - 1, fixed = leaf.ecx | (BIT(leaf.edx & 0x1f) - 1);

    if (cpuid(0, 0).eax >= LEAF_PMU_EXTENSION &&
        cpuid(LEAF_PMU_EXTENSION, 0).eax & EXTENSION_COUNTERS) {
        general = cpuid(LEAF_PMU_EXTENSION, 1).eax;
        fixed = cpuid(LEAF_PMU_EXTENSION, 1).ebx;
    }
    return general | fixed << 32;
}

/* The bits that a write is taken with, each alone. */
static uint64_t taken_bits(uint32_t msr)
{
    uint64_t before, taken = 0;

    if (!rdmsr_try(msr, &before))
        return 0;
    for (unsigned bit = 0; bit < 64; bit++)
        if (wrmsr_try(msr, BIT(bit)) && rdmsr(msr) == BIT(bit))
            taken |= BIT(bit);
    (void)wrmsr_try(msr, before);
    return taken;
}

/* `pmu-registers` */
void test_registers(const struct job *job)
{
    uint64_t there = 0, tried = 0, value, all = all_counters(), enabled = 0;
    uint64_t counted = 0, global = 0, status = 0; /* as who came before has left them */

    (void)rdmsr_try(IA32_FIXED_CTR0, &counted);
    (void)rdmsr_try(IA32_PERF_GLOBAL_CTRL, &global);
    (void)rdmsr_try(IA32_PERF_GLOBAL_STATUS, &status);
    region_mark(REGION_REGISTERS, true);
    for (unsigned i = 0; i < LENGTH_OF(blocks); i++)
        for (uint32_t msr = blocks[i].first; msr <= blocks[i].last; msr++, tried++)
            there += rdmsr_try(msr, &value);
    region_mark(REGION_REGISTERS, false);
    if (all != 0 && wrmsr_try(IA32_PERF_GLOBAL_CTRL, all)) {
        enabled = rdmsr(IA32_PERF_GLOBAL_CTRL);
        wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    }
    log_printf("registers: name=%s there=%lu tried=%lu all=%lu enabled=%lu taken=%lu counted=%lu "
               "global=%lu status=%lu\n",
               job->name, there, tried, all, enabled, taken_bits(IA32_PERF_GLOBAL_CTRL), counted,
               global, status);
    tap_result(enabled == all, job->name, NULL);
}

/* RDPMC at this privilege level; ~0: it faulted. */
static uint64_t rdpmc_at(unsigned cpl, uint32_t index)
{
    struct fuzz_op op = {.cpl = cpl};

    fuzz_begin(&op);
    fuzz_in.gpr[RCX] = index;
    CODE(&op, 0x0f, 0x33);
    return fuzz_go(&op) ? fuzz_out.gpr[RDX] << 32 | (uint32_t)fuzz_out.gpr[RAX] : ~0ULL;
}

/* `pmu-user`: general counter 1 and fixed counter 2, whose numbers no field of another one has,
 * each kept from users and not. A processor without that faults at the bit. */
void test_pmu_user(const struct job *job)
{
    static const struct {
        uint32_t index, control, counter;
        uint64_t disable;
    } counters[] = {
        {1, IA32_PERFEVTSEL0 + 1, IA32_A_PMC0 + 1, BIT(37)},
        {FIXED_COUNTERS | 2, IA32_FIXED_CTR_CTRL, IA32_FIXED_CTR0 + 2, BIT(33 + 4 * 2)}};
    bool good = true;

    fuzz_setup();
    fuzz_base.cr4 |= CR4_PCE;
    write_cr4(fuzz_base.cr4);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    for (unsigned i = 0; i < 2 * LENGTH_OF(counters); i++) {
        uint64_t disable = i % 2 ? counters[i / 2].disable : 0, value = COUNTED + i;
        bool done = wrmsr_try(counters[i / 2].control, disable);
        wrmsr(counters[i / 2].counter, value);
        uint64_t kernel = rdpmc_at(0, counters[i / 2].index),
                 user = rdpmc_at(3, counters[i / 2].index);
        log_printf("user: index=%u disable=%d done=%d kernel=%d user=%d zero=%d\n",
                   counters[i / 2].index, disable != 0, done, kernel == value, user == value,
                   user == 0);
        good &= kernel == value && user == (done && disable ? 0 : value);
        wrmsr(counters[i / 2].control, 0);
        wrmsr(counters[i / 2].counter, 0);
    }
    fuzz_end();
    tap_result(good, job->name, NULL);
}
