/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One table of the MSRs that belong to the PMU and to branch records, and the facts that CPUID
 * reports about them. Both the policy (vmx/exit/msr.c) and the full switch (pmu_context.c) read the
 * table. A new register needs one row. SDM Vol. 4, "Architectural MSRs"; Vol. 3, "Architectural
 * Performance Monitoring", "Last Branch Records", "Intel Processor Trace"; Linux's msr-index.h for
 * the two blocks of reload values.
 */
#include "pmu/pmu.h"
#include "vmx/msr_bitmap.h"

#define LEGACY_GENERAL 10 /* general counters with indices below 0x1900: up to IA32_PMC9 */
#define RELOAD_GENERAL 8
#define LEAF_23H_COUNTERS BIT(1) /* in EAX of subleaf 0: subleaf 1 exists */

enum counters {
    ALL,     /* every register of the row, whatever counters this processor has */
    GENERAL, /* `step` registers for each general counter that this processor has */
    FIXED,   /* `step` registers for each fixed counter that this processor has */
    NONE,    /* not part of a user's state, or switched by other code */
};
enum names {
    UP_TO_5_SHORT = 1, /* without full-width writes */
    UP_TO_5_FULL = 2,
    UP_TO_5 = UP_TO_5_SHORT | UP_TO_5_FULL,
    FROM_6 = 4, /* new indices for the same registers, and for additional registers */
    ANY = UP_TO_5 | FROM_6,
};

/* The purpose of a row. The table is in the order of these purposes. */
enum purpose {
    COUNT,       /* registers that count, and registers that must be off while others count */
    SAMPLE,      /* registers that only precise sampling needs */
    RECORD,      /* branch records: they belong to debugging, so they exist without a PMU, too */
    RECORD_ARCH, /* architectural branch records; exit only if the guest may have them */
    TRACE        /* Intel PT; vmx/exit/msr.c makes its accesses exit */
};

static const struct block {
    enum purpose purpose;
    uint32_t first;         /* MSR index */
    uint32_t last;          /* MSR index, included */
    enum counters counters; /* the kind of counter that the registers belong to */
    enum names names;       /* the PMU versions that use these indices */
    uint32_t step;          /* number of indices from one counter to the next */
} blocks[] = {
    /* The registers that a PMI's handler and a context switch use come first, because
     * policy=intercept searches this table. */
    {COUNT, IA32_PERF_GLOBAL_STATUS, IA32_PERF_GLOBAL_INUSE, NONE, ANY, 1},
    {COUNT, IA32_A_PMC0, IA32_A_PMC0 + LEGACY_GENERAL - 1, GENERAL, UP_TO_5_FULL, 1},
    {COUNT, IA32_PERFEVTSEL0, IA32_PERFEVTSEL0 + LEGACY_GENERAL - 1, GENERAL, UP_TO_5, 1},
    {COUNT, IA32_FIXED_CTR_CTRL, IA32_FIXED_CTR_CTRL, ALL, ANY, 1},
    {COUNT, IA32_FIXED_CTR0, IA32_FIXED_CTR0 + PMU_FIXED_MAX - 1, FIXED, UP_TO_5, 1},
    {COUNT, IA32_PMC0, IA32_PMC0 + LEGACY_GENERAL - 1, GENERAL, UP_TO_5_SHORT, 1},
    {COUNT, IA32_PMC_GP0_CTR, IA32_PMC_FX0_CTR - 1, GENERAL, FROM_6, PMC_STEP},
    {COUNT, IA32_PMC_FX0_CTR, IA32_PMC_FX31_LAST, FIXED, FROM_6, PMC_STEP},
    {COUNT, MSR_PERF_METRICS, MSR_PERF_METRICS, ALL, ANY, 1},
    /* COUNT, although the register is for sampling: if it kept the guest's value, a host counter
     * would write a record into the guest's buffer. */
    {COUNT, IA32_PEBS_ENABLE, IA32_PEBS_ENABLE, ALL, ANY, 1},
    {COUNT, MSR_PEBS_FRONTEND, MSR_PEBS_FRONTEND, ALL, ANY, 1},
    {COUNT, MSR_OFFCORE_RSP_0, MSR_OFFCORE_RSP_1, ALL, ANY, 1},
    {COUNT, MSR_OMR_0, MSR_OMR_0 + 3, ALL, ANY, 1},
    {COUNT, MSR_SNOOP_RSP_0, MSR_SNOOP_RSP_0 + 1, ALL, ANY, 1},
    {COUNT, IA32_PERF_CAPABILITIES, IA32_PERF_CAPABILITIES, NONE, ANY, 1},
    {SAMPLE, MSR_PEBS_DATA_CFG, MSR_PEBS_DATA_CFG, ALL, ANY, 1},
    {SAMPLE, MSR_PEBS_DATA_CFG + 1, IA32_PEBS_BASE - 1, NONE, ANY, 1},
    {SAMPLE, IA32_PEBS_BASE, MSR_PEBS_LD_LAT, ALL, ANY, 1},
    {SAMPLE, IA32_DS_AREA, IA32_DS_AREA, ALL, ANY, 1},
    {SAMPLE, MSR_RELOAD_FIXED_CTR0, MSR_RELOAD_FIXED_CTR0 + PMU_FIXED_MAX - 1, FIXED, ANY, 1},
    {SAMPLE, MSR_RELOAD_PMC0, MSR_RELOAD_PMC0 + RELOAD_GENERAL - 1, GENERAL, ANY, 1},
    {RECORD, MSR_LBR_SELECT, MSR_LASTBRANCH_TOS, ALL, ANY, 1},
    {RECORD, MSR_LASTBRANCH_0_FROM_IP, MSR_LASTBRANCH_0_FROM_IP + LBR_RECORDS - 1, ALL, ANY, 1},
    {RECORD, MSR_LASTBRANCH_0_TO_IP, MSR_LASTBRANCH_0_TO_IP + LBR_RECORDS - 1, ALL, ANY, 1},
    {RECORD, MSR_LBR_INFO_0, MSR_LBR_INFO_0 + LBR_RECORDS - 1, ALL, ANY, 1},
    /* Writing DEPTH clears the records, so DEPTH comes before them. */
    {RECORD_ARCH, IA32_LBR_DEPTH, IA32_LBR_DEPTH, ALL, ANY, 1},
    {RECORD_ARCH, IA32_LBR_FROM0, IA32_LBR_FROM0 + LBR_RECORDS - 1, ALL, ANY, 1},
    {RECORD_ARCH, IA32_LBR_TO0, IA32_LBR_TO0 + LBR_RECORDS - 1, ALL, ANY, 1},
    {RECORD_ARCH, IA32_LBR_INFO0, IA32_LBR_INFO0 + LBR_RECORDS - 1, ALL, ANY, 1},
    {TRACE, IA32_RTIT_OUTPUT_BASE, IA32_RTIT_OUTPUT_BASE + 1, ALL, ANY, 1},
    {TRACE, IA32_RTIT_STATUS, IA32_RTIT_STATUS + 1, ALL, ANY, 1},
    {TRACE, IA32_RTIT_ADDR0_A, IA32_RTIT_ADDR0_A + 7, ALL, ANY, 1},
};

bool pmu_is_trapped(const struct cpu *cpu, uint32_t index)
{
    for (unsigned i = 0; i < cpu->pmu.trapped; i++)
        if (index >= blocks[i].first && index <= blocks[i].last)
            return true;
    return false;
}

void pmu_trap_setup(struct cpu *cpu, bool arch_lbr)
{
    enum purpose last = !cpu->boot->options.pmu ? SAMPLE : arch_lbr ? RECORD_ARCH : RECORD;

    if (cpu->boot->options.pmu && cpu->boot->options.policy != POLICY_INTERCEPT)
        return;
    for (unsigned i = 0; i < LENGTH_OF(blocks) && blocks[i].purpose <= last; cpu->pmu.trapped = ++i)
        msr_bitmap_set(cpu->msr_bitmap, blocks[i].first, blocks[i].last, true, true);
}

static enum names get_naming_scheme(const struct pmu_facts *facts)
{
    if (facts->version >= PMU_VERSION_NAMES)
        return FROM_6;
    return facts->capabilities & PERF_CAP_FW_WRITE ? UP_TO_5_FULL : UP_TO_5_SHORT;
}

static bool is_counter_register_present(const struct pmu_facts *facts, const struct block *block,
                                        uint32_t index)
{
    uint32_t n = (index - block->first) / block->step;

    if (block->counters == NONE || !(block->names & get_naming_scheme(facts)))
        return false;
    return block->counters == ALL ||
           (block->counters == GENERAL ? facts->general : facts->fixed) >> n & 1;
}

unsigned pmu_list_msrs(const struct pmu_facts *facts, bool whole, uint32_t list[PMU_CONTEXT_MAX])
{
    unsigned count = 0;

    for (unsigned i = 0; i < LENGTH_OF(blocks); i++)
        for (uint32_t index = blocks[i].first; index <= blocks[i].last; index++)
            if ((whole || blocks[i].purpose == COUNT) &&
                is_counter_register_present(facts, &blocks[i], index) && count < PMU_CONTEXT_MAX)
                list[count++] = index;
    return count;
}

static uint32_t low_bits_mask(unsigned count)
{
    return count >= 32 ? UINT32_MAX : (1u << count) - 1;
}

struct pmu_facts pmu_decode_facts(const struct cpuid_result *leaf_0a,
                                  const struct cpuid_result *leaf_23_1, uint64_t capabilities)
{
    uint32_t general = low_bits_mask(leaf_0a->eax >> 8 & 0xff);
    uint32_t fixed = leaf_0a->ecx | low_bits_mask(leaf_0a->edx & 0x1f);

    return (struct pmu_facts){
        .version = leaf_0a->eax & 0xff,
        .general = leaf_23_1 != NULL ? leaf_23_1->eax : general,
        .fixed = leaf_23_1 != NULL ? leaf_23_1->ebx : fixed,
        .capabilities = capabilities,
    };
}

struct pmu_facts pmu_read_facts(void)
{
    struct cpuid_result leaf_0a = cpuid(CPUID_LEAF_PMU, 0), leaf_23_1 = {0};
    bool extended = cpuid(0, 0).eax >= CPUID_LEAF_PMU_EXTENDED &&
                    cpuid(CPUID_LEAF_EXTENDED, 1).eax & CPUID_7_1_EAX_PMU_EXTENDED &&
                    cpuid(CPUID_LEAF_PMU_EXTENDED, 0).eax & LEAF_23H_COUNTERS;
    bool pdcm = cpuid(1, 0).ecx & CPUID_1_ECX_PDCM;

    if (extended)
        leaf_23_1 = cpuid(CPUID_LEAF_PMU_EXTENDED, 1);
    return pmu_decode_facts(&leaf_0a, extended ? &leaf_23_1 : NULL,
                            pdcm ? rdmsr(IA32_PERF_CAPABILITIES) : 0);
}
