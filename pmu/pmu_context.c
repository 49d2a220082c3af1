/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The full switch of the PMU. Only done when host work uses the PMU, never at an exit as such.
 * SDM Vol. 3, "Architectural Performance Monitoring"; Vol. 4 for the model-specific registers.
 */
#include "pmu_context.h"

#include "../vmx/fault.h"
#include "cpu.h"

#define CPUID_LEAF_PMU 0xa
#define CPUID_1_ECX_PDCM BIT(15)
#define PMU_VERSION_STATUS_SET 4 /* the first with IA32_PERF_GLOBAL_STATUS_SET */

/* Built at the start, then only read. Counters are written through their full-width aliases where
 * there are any: the legacy ones take 32 bits and extend the sign. */
struct pmu_registers {
    uint32_t msr[PMU_CONTEXT_MAX];
    uint32_t count;
    bool status_set;
};

static void add(struct pmu_registers *r, uint32_t msr)
{
    if (r->count < PMU_CONTEXT_MAX)
        r->msr[r->count++] = msr;
}

/* Registers that CPUID does not tell about: whether they are there is tried, without a trace. */
static void add_if_there(struct pmu_registers *r, uint32_t msr)
{
    uint64_t value;

    if (rdmsr_safe(msr, &value) && wrmsr_safe(msr, value))
        add(r, msr);
}

bool pmu_context_setup(struct cpu *cpu)
{
    struct cpuid_result leaf = cpuid(CPUID_LEAF_PMU, 0);
    unsigned general = leaf.eax >> 8 & 0xff, fixed = leaf.edx & 0x1f;
    bool pdcm = cpuid(1, 0).ecx & CPUID_1_ECX_PDCM;
    uint64_t capabilities = pdcm ? rdmsr(IA32_PERF_CAPABILITIES) : 0;
    struct pmu_registers *r = page_alloc(1);

    cpu->pmu.guest = page_alloc(1);
    cpu->pmu.host = page_alloc(1);
    if (r == NULL || cpu->pmu.guest == NULL || cpu->pmu.host == NULL)
        return false;
    cpu->pmu.registers = r;
    if (!cpu->boot->options.pmu)
        return true;

    uint32_t counter = capabilities & PERF_CAP_FW_WRITE ? IA32_A_PMC0 : IA32_PMC0;
    for (unsigned i = 0; i < general; i++) {
        add(r, IA32_PERFEVTSEL0 + i);
        add(r, counter + i);
    }
    add(r, IA32_FIXED_CTR_CTRL);
    for (unsigned i = 0; i < fixed; i++)
        add(r, IA32_FIXED_CTR0 + i);
    if (capabilities & PERF_CAP_METRICS)
        add(r, MSR_PERF_METRICS);
    add_if_there(r, IA32_PEBS_ENABLE);
    add_if_there(r, MSR_PEBS_DATA_CFG);
    add_if_there(r, IA32_DS_AREA);
    add_if_there(r, MSR_OFFCORE_RSP_0);
    add_if_there(r, MSR_OFFCORE_RSP_1);
    add_if_there(r, MSR_PEBS_LD_LAT);
    add_if_there(r, MSR_PEBS_FRONTEND);
    r->status_set = (leaf.eax & 0xff) >= PMU_VERSION_STATUS_SET;
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
    if (to->status != 0 && r->status_set)
        wrmsr(IA32_PERF_GLOBAL_STATUS_SET, to->status);
}
