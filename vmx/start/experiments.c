/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The needs of the linked experiments at the start: pages, memory that the guest may read, state
 * for each processor, and setup. Each function adds up one need of all experiments, or meets it.
 * With no experiment linked, nothing is needed.
 */
#include "experiment.h"

#include "mm/mm.h"
#include "vmx/cpu.h"

#define CACHE_LINE 64

uint64_t experiments_place_state(void)
{
    uint64_t bytes = sizeof(struct cpu);

    FOR_EACH_EXPERIMENT(e)
        if (e->place != NULL) {
            bytes = (bytes + CACHE_LINE - 1) & ~(uint64_t)(CACHE_LINE - 1);
            *e->place = bytes;
            bytes += e->state_bytes;
        }
    return bytes;
}

uint64_t experiments_pages_needed(const struct boot_info *bi, uint64_t tables)
{
    uint64_t pages = 0;

    FOR_EACH_EXPERIMENT(e)
        if (e->pages != NULL)
            pages += e->pages(bi, tables);
    return pages;
}

uint64_t experiments_guest_readable_bytes(const struct boot_info *bi)
{
    uint64_t bytes = 0;

    FOR_EACH_EXPERIMENT(e)
        if (e->readable != NULL)
            bytes += e->readable(bi);
    return bytes;
}

struct range experiments_reserve(const struct boot_info *bi)
{
    struct range all = {0, experiments_guest_readable_bytes(bi)};

    if (all.size == 0)
        return all;
    all.base = (uint64_t)page_alloc(all.size / PAGE_SIZE);
    struct range part = {all.base, 0};
    FOR_EACH_EXPERIMENT(e)
        if (e->readable != NULL) {
            part.base += part.size;
            part.size = e->readable(bi);
            e->reserve(part);
        }
    return all;
}

bool experiments_need_tsc(void)
{
    FOR_EACH_EXPERIMENT(e)
        if (e->needs_tsc != NULL && e->needs_tsc())
            return true;
    return false;
}

void experiments_setup(struct cpu *cpu, const struct vmx_capability *c)
{
    FOR_EACH_EXPERIMENT(e)
        if (e->rows != NULL && e->policy.name == cpu->boot->options.policy_name)
            e->rows(cpu);
    FOR_EACH_EXPERIMENT(e)
        if (e->setup != NULL)
            e->setup(cpu, c);
}
