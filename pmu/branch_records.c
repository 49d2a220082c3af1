/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Branch records for host work: architectural records if the processor has them, otherwise the
 * older ring of records with a top (MSR_LASTBRANCH_TOS; big cores from Nehalem on). The full switch
 * (pmu_context.c) saves and loads the guest's records. SDM Vol. 3, "Last Branch Records" and "Last
 * Branch, Interrupt, and Exception Recording".
 */
#include "pmu/pmu.h"
#include "vmx/root/fault.h"

static const struct branch_records ring = {IA32_DEBUGCTL, MSR_LASTBRANCH_0_FROM_IP,
                                           DEBUGCTL_FREEZE_PERFMON_ON_PMI | DEBUGCTL_LBR};
static const struct branch_records architectural = {IA32_LBR_CTL, IA32_LBR_FROM0, LBR_CTL_ROOT_ALL};

const struct branch_records *branch_records_find(void)
{
    bool arch = cpuid_extended_features().edx & CPUID_7_EDX_ARCH_LBR;
    const struct branch_records *records = arch ? &architectural : &ring;
    unsigned depth = LBR_RECORDS;
    uint64_t from;

    /* Set the largest depth that the processor accepts, so that the register probe sees all
     * records. */
    while (arch && depth > 0 && !wrmsr_safe(IA32_LBR_DEPTH, depth))
        depth -= 8;
    /* Do not try to record branches, because the guest could read the records of the trial. */
    return rdmsr_safe(records->from, &from) ? records : NULL;
}

unsigned branch_records_count_from(const struct branch_records *records, uint64_t address)
{
    uint64_t from;
    unsigned found = 0;

    for (uint32_t i = 0; i < LBR_RECORDS && rdmsr_safe(records->from + i, &from); i++)
        found += ((from ^ address) & LBR_ADDRESS) == 0;
    return found;
}
