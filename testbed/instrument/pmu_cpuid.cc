// SPDX-License-Identifier: BSD-2-Clause
//
// The same PMU in every processor model: the leaves are overwritten, whatever Bochs says.
#include "pmu_cpuid.h"

#include "counter.h"

namespace {

constexpr uint32_t LEAF_FEATURES = 1;
constexpr uint32_t FEATURES_ECX_PDCM = 1u << 15;
constexpr uint32_t LEAF_EXTENDED_FEATURES = 7;
// CPUID.07H.01H:EAX, ARCH_PERFMON_EXT: there is a leaf 23H.
constexpr uint32_t EXTENDED_FEATURES_1_EAX_LEAF_23H = 1u << 8;
constexpr uint32_t LEAF_PERFMON = 0xa;
constexpr unsigned PERFMON_EDX_ANYTHREAD_DEPRECATION = 15;
constexpr uint32_t LEAF_PERFMON_EXTENSION = 0x23;
// Subleaves 0, 1 (counters) and 3 (events): no auto counter reload, no PEBS.
constexpr uint32_t EXTENSION_SUBLEAVES = 0xb;
constexpr uint32_t EXTENSION_EBX_RDPMC_USER_DISABLE = 1u << 2;
// The architectural events, in leaf 0AH's order: cycles to branch misses.
constexpr unsigned EVENTS = 7;

// How many counters there are from 0 on without a gap.
uint32_t contiguous(uint32_t mask)
{
    uint32_t n = 0;

    while (mask >> n & 1)
        n++;
    return n;
}

}  // namespace

uint32_t pmu_last_leaf(const PmuShape &shape, uint32_t own)
{
    return shape.version >= PMU_VERSION_LEAF_23H && own < LEAF_PERFMON_EXTENSION
               ? LEAF_PERFMON_EXTENSION
               : own;
}

void pmu_cpuid(const PmuShape &shape, uint32_t own, uint32_t leaf, uint32_t subleaf,
               CpuidResult *result)
{
    bool extension = shape.version >= PMU_VERSION_LEAF_23H;
    bool fixed_mask = shape.version >= PMU_VERSION_FIXED_MASK;

    // Where leaf 23H has moved the end, what lies before it is reserved.
    if (leaf > own && leaf <= pmu_last_leaf(shape, own))
        *result = CpuidResult();
    if (leaf == 0)
        result->eax = pmu_last_leaf(shape, own);
    if (leaf == LEAF_FEATURES)
        result->ecx |= FEATURES_ECX_PDCM;
    if (leaf == LEAF_EXTENDED_FEATURES && subleaf == 0 && extension && result->eax == 0)
        result->eax = 1;
    if (leaf == LEAF_EXTENDED_FEATURES && subleaf == 1 && extension)
        result->eax |= EXTENDED_FEATURES_1_EAX_LEAF_23H;
    if (leaf == LEAF_PERFMON) {
        result->eax = EVENTS << 24 | COUNTER_WIDTH << 16 | contiguous(shape.general) << 8 |
                      shape.version;
        result->ebx = 0;
        result->ecx = fixed_mask ? shape.fixed : 0;
        result->edx = uint32_t{fixed_mask} << PERFMON_EDX_ANYTHREAD_DEPRECATION |
                      COUNTER_WIDTH << 5 | contiguous(shape.fixed);
    }
    if (leaf == LEAF_PERFMON_EXTENSION && extension) {
        *result = CpuidResult();
        if (subleaf == 0) {
            result->eax = EXTENSION_SUBLEAVES;
            result->ebx = EXTENSION_EBX_RDPMC_USER_DISABLE;
        }
        if (subleaf == 1) {
            result->eax = shape.general;
            result->ebx = shape.fixed;
        }
        if (subleaf == 3)
            result->eax = (1u << EVENTS) - 1;
    }
}
