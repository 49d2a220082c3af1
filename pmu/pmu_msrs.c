/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which MSRs are the PMU's. With the PMU passed through, the list is not needed: the MSR bitmap
 * lets everything pass. With pmu=off these fault, as on a processor without a PMU; with
 * policy=intercept they exit. LBRs and IA32_DEBUGCTL are not among them: they are debugging's (SDM
 * Vol. 3, "Debug, Branch Profile, TSC, ..."), work without a PMU, and stay.
 * SDM Vol. 3, "Performance Monitoring"; Vol. 4 for the model-specific ones.
 */
#include "pmu.h"

#include "../vmx/msr_bitmap.h"

#define COUNTERS_MAX 8
#define FIXED_MAX 16

static const struct {
    uint32_t first, last;
} pmu_msrs[] = {
    {IA32_PMC0, IA32_PMC0 + COUNTERS_MAX - 1},
    {IA32_PERFEVTSEL0, IA32_PERFEVTSEL0 + COUNTERS_MAX - 1},
    {MSR_OFFCORE_RSP_0, MSR_OFFCORE_RSP_1},
    {IA32_FIXED_CTR0, IA32_FIXED_CTR0 + FIXED_MAX - 1},
    {MSR_PERF_METRICS, MSR_PERF_METRICS},
    {IA32_PERF_CAPABILITIES, IA32_PERF_CAPABILITIES},
    {IA32_FIXED_CTR_CTRL, IA32_PERF_GLOBAL_INUSE},
    {IA32_PEBS_ENABLE, MSR_PEBS_DATA_CFG},
    {MSR_PEBS_LD_LAT, MSR_PEBS_FRONTEND},
    {IA32_A_PMC0, IA32_A_PMC0 + COUNTERS_MAX - 1},
    {IA32_DS_AREA, IA32_DS_AREA},
    {IA32_PMC_GP0_CTR, IA32_PMC_FX31_LAST},
};
#define PMU_MSRS (sizeof(pmu_msrs) / sizeof(pmu_msrs[0]))

void pmu_watch(void *msr_bitmap)
{
    for (unsigned i = 0; i < PMU_MSRS; i++)
        msr_bitmap_set(msr_bitmap, pmu_msrs[i].first, pmu_msrs[i].last, true, true);
}

bool pmu_owns(uint32_t msr)
{
    for (unsigned i = 0; i < PMU_MSRS; i++)
        if (msr >= pmu_msrs[i].first && msr <= pmu_msrs[i].last)
            return true;
    return false;
}
