/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The full switch of the PMU. Only done when host work uses the PMU, never at an exit as such.
 * SDM Vol. 3, "Architectural Performance Monitoring"; Vol. 4 for the model-specific registers.
 */
#include "pmu.h"

#include "../vmx/fault.h"

#define PMU_VERSION_STATUS_SET 4 /* the first with IA32_PERF_GLOBAL_STATUS_SET */

/* Built at the start, then only read. Counters are written through their full-width aliases where
 * there are any: the legacy ones take 32 bits and extend the sign. */
struct pmu_registers {
    uint32_t msr[PMU_CONTEXT_MAX];
    uint32_t count;
};

static void add(struct pmu_registers *r, uint32_t msr)
{
    if (r->count < PMU_CONTEXT_MAX)
        r->msr[r->count++] = msr;
}

struct pmu_facts pmu_facts(void)
{
    struct cpuid_result leaf = cpuid(CPUID_LEAF_PMU, 0);
    bool pdcm = cpuid(1, 0).ecx & CPUID_1_ECX_PDCM;

    return (struct pmu_facts){.version = leaf.eax & 0xff, .general = leaf.eax >> 8 & 0xff,
                              .fixed = leaf.edx & 0x1f,
                              .capabilities = pdcm ? rdmsr(IA32_PERF_CAPABILITIES) : 0};
}

bool pmu_context_setup(struct cpu *cpu)
{
    /* CPUID does not tell about these: whether they are there is tried, without a trace. */
    static const uint32_t tried[] = {IA32_PEBS_ENABLE,  MSR_PEBS_DATA_CFG, IA32_DS_AREA,
                                     MSR_OFFCORE_RSP_0, MSR_OFFCORE_RSP_1, MSR_PEBS_LD_LAT,
                                     MSR_PEBS_FRONTEND};
    struct pmu_facts facts = pmu_facts();
    struct pmu_registers *r = cpu->pmu.registers = page_alloc(1);
    uint64_t value;

    cpu->pmu.guest = page_alloc(1);
    cpu->pmu.host = page_alloc(1);
    if (r == NULL || cpu->pmu.guest == NULL || cpu->pmu.host == NULL)
        return false;
    if (!cpu->boot->options.pmu)
        return true;

    uint32_t counter = facts.capabilities & PERF_CAP_FW_WRITE ? IA32_A_PMC0 : IA32_PMC0;
    for (unsigned i = 0; i < facts.general; i++) {
        add(r, IA32_PERFEVTSEL0 + i);
        add(r, counter + i);
    }
    add(r, IA32_FIXED_CTR_CTRL);
    for (unsigned i = 0; i < facts.fixed; i++)
        add(r, IA32_FIXED_CTR0 + i);
    if (facts.capabilities & PERF_CAP_METRICS)
        add(r, MSR_PERF_METRICS);
    for (unsigned i = 0; i < LENGTH_OF(tried); i++)
        if (rdmsr_safe(tried[i], &value) && wrmsr_safe(tried[i], value))
            add(r, tried[i]);
    cpu->pmu.can_work = counter == IA32_A_PMC0 &&
                        wrmsr_safe(IA32_DEBUGCTL, DEBUGCTL_FREEZE_PERFMON_ON_PMI);
    (void)wrmsr_safe(IA32_DEBUGCTL, 0);
    cpu->pmu.status_set = facts.version >= PMU_VERSION_STATUS_SET;
    return true;
}

void pmu_context_switch(struct cpu *cpu, struct pmu_context *from, const struct pmu_context *to)
{
    const struct pmu_registers *r = cpu->pmu.registers;

    from->status = rdmsr(IA32_PERF_GLOBAL_STATUS);
    if (from->status != 0)
        wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, from->status);
    for (uint32_t i = 0; i < r->count; i++) {
        from->value[i] = rdmsr(r->msr[i]);
        wrmsr(r->msr[i], to->value[i]);
    }
    /* Before version 4 an overflow bit cannot be put back: the PMI that it announced can. */
    if (to->status != 0 && cpu->pmu.status_set)
        wrmsr(IA32_PERF_GLOBAL_STATUS_SET, to->status & ~GLOBAL_STATUS_COND_CHGD);
}
