/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The full switch of the PMU. Only done when host work uses the PMU, never at an exit as such.
 * Freezes are in it: LBR_FRZ and CTR_FRZ are bits of GLOBAL_STATUS. Where they are not, before
 * version 4, a freeze is IA32_DEBUGCTL.LBR cleared, which is in the VMCS.
 * SDM Vol. 3, "Architectural Performance Monitoring"; Vol. 4 for the model-specific registers.
 */
#include "pmu/pmu.h"

#include "vmx/root/fault.h"

#define PMU_VERSION_STATUS_SET 4 /* the first with IA32_PERF_GLOBAL_STATUS_SET */

/* Built at the start, then only read. */
struct pmu_registers {
    uint32_t msr[PMU_CONTEXT_MAX];
    uint32_t count;
    uint32_t counting; /* the first of them: all that counting needs */
};
_Static_assert(sizeof(struct pmu_registers) <= PAGE_SIZE, "they have a page of their own");

/* The register is there, and takes what it holds. */
static bool there(uint32_t index)
{
    uint64_t value;

    return rdmsr_safe(index, &value) && wrmsr_safe(index, value);
}

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
    cpu->pmu.records = records_find();
    unsigned counting = pmu_list(&facts, false, r->msr);
    unsigned listed = pmu_list(&facts, true, r->msr);
    for (unsigned i = 0; i < listed; i++) {
        if ((r->msr[i] == IA32_PEBS_ENABLE && cpu->pmu.pebs_switched) || /* it is in a list */
            !there(r->msr[i]))
            continue;
        r->msr[r->count++] = r->msr[i];
        r->counting += i < counting;
    }
    /* By names that later processors may not have: each has one from 1900H on, too. */
    cpu->pmu.can_work = facts.general & HOST_GLOBAL_CTRL &&
                        facts.capabilities & PERF_CAP_FW_WRITE && there(IA32_PERFEVTSEL0) &&
                        there(IA32_A_PMC0) && rdmsr_safe(IA32_PMC0, &value) &&
                        wrmsr_safe(IA32_DEBUGCTL, DEBUGCTL_FREEZE_PERFMON_ON_PMI);
    (void)wrmsr_safe(IA32_DEBUGCTL, 0);
    /* Tried, because it is written in NMI context, where nothing may fault. */
    cpu->pmu.status_set = facts.version >= PMU_VERSION_STATUS_SET &&
                          wrmsr_safe(IA32_PERF_GLOBAL_STATUS_SET, 0);
    return true;
}

/* Accesses may fault here: to records behind IA32_LBR_DEPTH, which the other user chose, and a
 * write of 0 to that register, which leaves it as it is. Without TSX a FROM of one format has its
 * bits 62:61 recorded as 0, but written as the address's sign (Linux, arch/x86/events/intel/lbr.c).
 */
static void switch_rest(const struct pmu_registers *r, struct pmu_context *from,
                        const struct pmu_context *to)
{
    for (uint32_t i = r->counting; i < r->count; i++)
        (void)rdmsr_safe(r->msr[i], &from->value[i]);
    for (uint32_t i = r->counting; i < r->count; i++)
        if (!wrmsr_safe(r->msr[i], to->value[i]))
            (void)wrmsr_safe(r->msr[i], to->value[i] | (to->value[i] & BITS(60, 59)) << 2);
}

void pmu_context_switch(struct cpu *cpu, struct pmu_context *from, const struct pmu_context *to,
                        bool whole)
{
    const struct pmu_registers *r = cpu->pmu.registers;

    from->status = rdmsr(IA32_PERF_GLOBAL_STATUS);
    if (from->status != 0)
        wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, from->status);
    for (uint32_t i = 0; i < r->counting; i++) {
        from->value[i] = rdmsr(r->msr[i]);
        wrmsr(r->msr[i], to->value[i]);
    }
    if (whole)
        switch_rest(r, from, to);
    /* Before version 4 an overflow bit cannot be put back: the PMI that it announced can. */
    if (to->status != 0 && cpu->pmu.status_set)
        wrmsr(IA32_PERF_GLOBAL_STATUS_SET, to->status & ~GLOBAL_STATUS_COND_CHGD);
}
