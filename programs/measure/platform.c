/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The PMU that CPUID shows, its registers kept over the measurements, and the local APIC.
 * SDM Vol. 3, "Architectural Performance Monitoring", "Local Vector Table", "Interrupt Command
 * Register (ICR)"; Vol. 2, "CPUID", leaf 0AH.
 */
#include "internal.h"

#define LEAF_FEATURES 1
#define LEAF_1_ECX_PDCM (1u << 15)
#define LEAF_PMU 0x0a
#define PMU_VERSION_MIN 2 /* GLOBAL_CTRL, GLOBAL_STATUS, GLOBAL_OVF_CTRL */

#define APIC_ID 0x020
#define APIC_VERSION 0x030
#define VERSION_MAX_LVT(version) ((version) >> 16 & 0xff) /* the entries, less 1 */
#define MAX_LVT_LVTPC 4 /* the least with which there is an LVTPC */
#define APIC_ICR_LOW 0x300
#define APIC_ICR_HIGH 0x310
#define APIC_LVTPC 0x340
#define X2APIC_ID 0x802
#define X2APIC_VERSION 0x803
#define ICR_NMI (4u << 8)
#define ICR_ASSERT (1u << 14)

static struct pmu pmu;
static struct {
    uint64_t event_select, counter, global_ctrl;
    uint32_t lvtpc;
} saved;

const struct pmu *pmu_found(void)
{
    struct cpuid_result leaf = {0, 0, 0, 0};

    pmu = (struct pmu){.why_not = NULL, .counter_msr = MSR_PMC0};
    if (cpuid(0, 0).eax >= LEAF_PMU)
        leaf = cpuid(LEAF_PMU, 0);
    if ((leaf.eax & 0xff) < PMU_VERSION_MIN || (leaf.eax >> 8 & 0xff) == 0) {
        pmu.why_not = "CPUID shows no PMU of version 2 with a general counter";
        return &pmu;
    }
    pmu.counter_mask = ~0ull >> (64 - (leaf.eax >> 16 & 0xff));
    pmu.full_width = cpuid(LEAF_FEATURES, 0).ecx & LEAF_1_ECX_PDCM &&
                     rdmsr(MSR_PERF_CAPABILITIES_INDEX) & PERF_CAPABILITIES_FW_WRITE;
    if (pmu.full_width)
        pmu.counter_msr = MSR_A_PMC0;
    return &pmu;
}

static volatile uint32_t *at(uint32_t offset)
{
    return (volatile uint32_t *)((uintptr_t)measure_host->apic + offset);
}

static bool lvtpc_exists(void)
{
    uint32_t version = measure_host->apic != NULL ? *at(APIC_VERSION)
                                                  : (uint32_t)rdmsr(X2APIC_VERSION);

    return VERSION_MAX_LVT(version) >= MAX_LVT_LVTPC;
}

const char *lvtpc_why_not(void)
{
    if (pmu_found()->why_not != NULL)
        return pmu.why_not;
    return lvtpc_exists() ? NULL : "the local APIC has no LVTPC";
}

void pmu_save(void)
{
    if (pmu_found()->why_not == NULL) {
        saved.global_ctrl = rdmsr(MSR_GLOBAL_CTRL);
        wrmsr(MSR_GLOBAL_CTRL, 0);
        saved.event_select = rdmsr(MSR_PERFEVTSEL0);
        saved.counter = rdmsr(pmu.counter_msr);
    }
    if (lvtpc_exists())
        saved.lvtpc = lvtpc_read();
}

void pmu_restore(void)
{
    if (pmu.why_not == NULL) {
        wrmsr(MSR_GLOBAL_CTRL, 0);
        wrmsr(MSR_GLOBAL_OVF_CTRL, COUNTER_0);
        wrmsr(pmu.counter_msr, saved.counter);
        wrmsr(MSR_PERFEVTSEL0, saved.event_select);
    }
    if (lvtpc_exists())
        lvtpc_write(saved.lvtpc);
    if (pmu.why_not == NULL)
        wrmsr(MSR_GLOBAL_CTRL, saved.global_ctrl);
}

volatile uint32_t *xapic_lvtpc(void) { return measure_host->apic != NULL ? at(APIC_LVTPC) : NULL; }

uint32_t lvtpc_read(void)
{
    return measure_host->apic != NULL ? *at(APIC_LVTPC) : (uint32_t)rdmsr(X2APIC_LVTPC);
}

void lvtpc_write(uint32_t value)
{
    if (measure_host->apic != NULL)
        *at(APIC_LVTPC) = value;
    else
        wrmsr(X2APIC_LVTPC, value);
}

volatile uint32_t *self_nmi_prepare(uint32_t *low, uint32_t *high)
{
    *low = ICR_NMI | ICR_ASSERT;
    if (measure_host->apic == NULL) {
        *high = (uint32_t)rdmsr(X2APIC_ID);
        return NULL;
    }
    *high = *at(APIC_ID);
    *at(APIC_ICR_HIGH) = *high;
    return at(APIC_ICR_LOW);
}
