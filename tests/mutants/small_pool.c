/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor whose pool has as many pages as an MSR of the emulator says: it must end in one
 * clear line wherever they run out.
 */
#include "mm/mm.h"
#include "x86.h"

#define MSR_POOL_PAGES 0xfff

void __real_page_pool_init(struct range range);

void __wrap_page_pool_init(struct range range)
{
    __real_page_pool_init((struct range){range.base, rdmsr(MSR_POOL_PAGES) * PAGE_SIZE});
}
