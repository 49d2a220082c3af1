/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What CPUID says of the PMU. Knows no Bochs.
 */
#pragma once

#include <cstdint>

#include "pmu.h"

/* The result of CPUID. */
struct CpuidResult {
    uint32_t eax, ebx, ecx, edx;
};

/* The last leaf that a processor with this PMU has, if its own is `own`. */
uint32_t pmu_last_leaf(const PmuShape &shape, uint32_t own);

/* Writes the PMU's part into the result of a leaf, of a processor whose last leaf is `own`. SDM
 * Vol. 2, "CPUID", leaves 01H, 07H, 0AH and 23H. */
void pmu_cpuid(const PmuShape &shape, uint32_t own, uint32_t leaf, uint32_t subleaf,
               CpuidResult *result);
