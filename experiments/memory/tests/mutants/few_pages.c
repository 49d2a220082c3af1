/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that reserves too few pages for the maps where page tables have no pages of 1 GiB, and the EPT
 * has: the trace must be seen to be left out.
 */
#include "experiments/memory/hypervisor/memory.h"

uint64_t __real_memory_map_pages(const struct boot_info *bi, uint64_t tables);
uint64_t __wrap_memory_map_pages(const struct boot_info *bi, uint64_t tables);

uint64_t __wrap_memory_map_pages(const struct boot_info *bi, uint64_t tables)
{
    uint64_t pages = __real_memory_map_pages(bi, tables);

    return cpuid(CPUID_LEAF_EXTENDED_1, 0).edx & CPUID_EXTENDED_1_EDX_PAGE_1G ? pages : pages / 2;
}
