/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The full switch of the PMU. Host work needs the full switch. An exit by itself never makes it.
 * The switch includes freezes: LBR_FRZ and CTR_FRZ are bits of GLOBAL_STATUS. Before version 4
 * these bits do not exist, and a freeze of branch records clears IA32_DEBUGCTL.LBR, which is in the
 * VMCS. SDM Vol. 3, "Architectural Performance Monitoring"; Vol. 4 for the model-specific
 * registers.
 */
#include "pmu/pmu.h"

#include "vmx/root/fault.h"

#define PMU_VERSION_STATUS_SET 4 /* the first version with IA32_PERF_GLOBAL_STATUS_SET */

/* Built at the start, then only read. */
struct pmu_registers {
    uint32_t msr[PMU_CONTEXT_MAX]; /* MSR indices */
    uint32_t count;                /* number of registers */
    uint32_t counting;             /* number of leading registers that counting needs */
};
_Static_assert(sizeof(struct pmu_registers) <= PAGE_SIZE, "they have a page of their own");

/* Returns whether the register exists and accepts the value that it holds. */
static bool probe_register(uint32_t index)
{
    uint64_t value;

    return rdmsr_safe(index, &value) && wrmsr_safe(index, value);
}

void pmu_context_setup(struct cpu *cpu)
{
    struct pmu_facts facts = pmu_read_facts();
    struct pmu_registers *r = cpu->pmu.registers = page_alloc(1);
    uint64_t value;

    cpu->pmu.guest = page_alloc(1);
    cpu->pmu.host = page_alloc(1);
    if (!cpu->boot->options.pmu)
        return;

    cpu->pmu.pebs_switched = pebs_needs_switch(facts.version);
    /* Probe each register. Probing leaves no trace. */
    cpu->pmu.records = branch_records_find();
    unsigned counting = pmu_list_msrs(&facts, false, r->msr);
    unsigned listed = pmu_list_msrs(&facts, true, r->msr);
    for (unsigned i = 0; i < listed; i++) {
        if ((r->msr[i] == IA32_PEBS_ENABLE && cpu->pmu.pebs_switched) || /* in an MSR list */
            !probe_register(r->msr[i]))
            continue;
        r->msr[r->count++] = r->msr[i];
        r->counting += i < counting;
    }
    /* Probe the indices that host work uses, because later processors may lack them: each register
     * also has an index from 1900H on. */
    cpu->pmu.can_run_host_work = facts.general & HOST_GLOBAL_CTRL &&
                                 facts.capabilities & PERF_CAP_FW_WRITE &&
                                 probe_register(IA32_PERFEVTSEL0) && probe_register(IA32_A_PMC0) &&
                                 rdmsr_safe(IA32_PMC0, &value) &&
                                 wrmsr_safe(IA32_DEBUGCTL, DEBUGCTL_FREEZE_PERFMON_ON_PMI);
    (void)wrmsr_safe(IA32_DEBUGCTL, 0);
    /* Probe this register, because NMI context writes it, where nothing may fault. */
    cpu->pmu.status_set = facts.version >= PMU_VERSION_STATUS_SET &&
                          wrmsr_safe(IA32_PERF_GLOBAL_STATUS_SET, 0);
}

/* Three kinds of access may fault here. An access to a record beyond the depth that the PMU's other
 * user wrote to IA32_LBR_DEPTH has no effect. A write of 0 to IA32_LBR_DEPTH leaves the old value.
 * The third kind is a write of a FROM register: on a processor without TSX, one record format reads
 * as 0 in bits 62:61, but a write needs the address's sign in these bits (Linux,
 * arch/x86/events/intel/lbr.c). So this write is repeated with the sign. */
static void switch_optional_registers(const struct pmu_registers *r, struct pmu_context *from,
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
        switch_optional_registers(r, from, to);
    /* Before version 4 an overflow bit cannot be restored. But the overflow's PMI is not lost:
     * nmi_release() sends it again. */
    if (to->status != 0 && cpu->pmu.status_set)
        wrmsr(IA32_PERF_GLOBAL_STATUS_SET, to->status & ~GLOBAL_STATUS_COND_CHGD);
}
