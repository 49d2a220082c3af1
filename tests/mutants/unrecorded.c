/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor whose full switch has no rows of precise sampling and of branch records: host work
 * that records branches, or a second guest, must be seen to leave its own in them.
 */
#include "pmu/pmu.h"

unsigned __real_pmu_list_msrs(const struct pmu_facts *facts, bool whole,
                              uint32_t list[PMU_CONTEXT_MAX]);

unsigned __wrap_pmu_list_msrs(const struct pmu_facts *facts, bool whole,
                              uint32_t list[PMU_CONTEXT_MAX])
{
    return __real_pmu_list_msrs(facts, false, list);
}
