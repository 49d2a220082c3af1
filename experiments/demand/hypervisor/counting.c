/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Tells whether the guest counts. A counter has two switches. One is its enable bit in
 * IA32_PERFEVTSELx, or its field of IA32_FIXED_CTR_CTRL. The other is its bit of
 * IA32_PERF_GLOBAL_CTRL. The functions here rely on the first switch. Linux sets all bits of
 * GLOBAL_CTRL after each change of its events, even if no events are left. It clears these bits
 * during a PMI's handler (arch/x86/events/core.c, x86_pmu_enable()). In contrast, Linux sets an
 * enable bit only for a counter that is to count, right before it sets GLOBAL_CTRL. If a kernel
 * keeps its enable bits and switches only GLOBAL_CTRL, its write of GLOBAL_CTRL shows that it
 * counts.
 *
 * These functions only read registers. Nothing counts in root mode, so an NMI can change these
 * registers only by a freeze. A freeze changes no bit that these functions use. SDM Vol. 3,
 * "Architectural Performance Monitoring Version 2", "Version 6".
 */
#include "experiments/demand/hypervisor/demand.h"

#define LEGACY_SELECTS 10 /* number of event selects with an index below 1900H */
#define SELECTS_MAX 32
#define FIXED_FIELD 4
#define FIXED_ENABLED 3ull /* a field's enable bits: for ring 0, and for the rings above */
#define ALL_FIXED_ENABLED 0x3333333333333333ull

static bool is_event_select(uint32_t index)
{
    return index - IA32_PERFEVTSEL0 < LEGACY_SELECTS ||
           (index - IA32_PMC_GP0_CTR < SELECTS_MAX * PMC_STEP &&
            (index - IA32_PMC_GP0_CTR) % PMC_STEP == 1);
}

/* Returns the counters whose enable bits are on, as bits of GLOBAL_CTRL. */
static uint64_t read_enabled_counters(const struct pmu_facts *facts)
{
    bool new_names = facts->version >= PMU_VERSION_NAMES;
    uint64_t fields = rdmsr(IA32_FIXED_CTR_CTRL), bits = 0;

    for (uint32_t left = facts->general; left != 0; left &= left - 1) {
        uint32_t n = (uint32_t)__builtin_ctz(left);

        if (rdmsr(new_names ? IA32_PMC_GP0_CTR + n * PMC_STEP + 1 : IA32_PERFEVTSEL0 + n) &
            EVTSEL_EN)
            bits |= BIT(n);
    }
    for (uint32_t n = 0; fields != 0; n++, fields >>= FIXED_FIELD)
        if (fields & FIXED_ENABLED)
            bits |= BIT(n) << GLOBAL_CTRL_FIXED_SHIFT;
    return bits;
}

bool demand_enables_counter(const struct pmu_facts *facts, uint32_t index, uint64_t value)
{
    if (is_event_select(index))
        return value & EVTSEL_EN;
    if (index == IA32_FIXED_CTR_CTRL)
        return value & ALL_FIXED_ENABLED;
    return index == IA32_PERF_GLOBAL_CTRL && value != 0 && value & read_enabled_counters(facts);
}

bool demand_is_counting(const struct cpu *cpu, const struct pmu_facts *facts)
{
    uint64_t global_ctrl = pmu_get_global_ctrl(cpu);

    return global_ctrl != 0 && (global_ctrl & read_enabled_counters(facts)) != 0;
}
