/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The full switch of the PMU. Only done when host work uses the PMU, never at an exit as such.
 * SDM Vol. 3, "Architectural Performance Monitoring"; Vol. 4 for the model-specific registers.
 */
#include "pmu/pmu.h"

#include "vmx/root/fault.h"

#define PMU_VERSION_STATUS_SET 4 /* the first with IA32_PERF_GLOBAL_STATUS_SET */

/* Built at the start, then only read. */
struct pmu_registers {
    uint32_t msr[PMU_CONTEXT_MAX];
    uint32_t count;
};
_Static_assert(sizeof(struct pmu_registers) <= PAGE_SIZE, "they have a page of their own");

bool pmu_context_setup(struct cpu *cpu)
{
    struct pmu_facts facts = pmu_facts();
    struct pmu_registers *r = cpu->pmu.registers = page_alloc(1);
    uint64_t value;

    cpu->pmu.guest = page_alloc(1);
    cpu->pmu.host = page_alloc(1);
    if (r == NULL || cpu->pmu.guest == NULL || cpu->pmu.host == NULL)
        return false;
    if (!cpu->boot->options.pmu)
        return true;

    cpu->pmu.pebs_switched = pebs_needs_switch(facts.version);
    /* Whether each is there is tried, without a trace. */
    unsigned listed = pmu_list(&facts, r->msr);
    for (unsigned i = 0; i < listed; i++)
        if (!(r->msr[i] == IA32_PEBS_ENABLE && cpu->pmu.pebs_switched) && /* it is in a list */
            rdmsr_safe(r->msr[i], &value) && wrmsr_safe(r->msr[i], value))
            r->msr[r->count++] = r->msr[i];
    cpu->pmu.can_work = facts.general & HOST_GLOBAL_CTRL &&
                        facts.capabilities & PERF_CAP_FW_WRITE &&
                        wrmsr_safe(IA32_DEBUGCTL, DEBUGCTL_FREEZE_PERFMON_ON_PMI);
    (void)wrmsr_safe(IA32_DEBUGCTL, 0);
    /* Tried, because it is written in NMI context, where nothing may fault. */
    cpu->pmu.status_set = facts.version >= PMU_VERSION_STATUS_SET &&
                          wrmsr_safe(IA32_PERF_GLOBAL_STATUS_SET, 0);
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
