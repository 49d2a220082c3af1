/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The page allocator: hands out the pool from its low end upwards and never takes a page back.
 * Touches nothing but the pool. Used by one processor at a
 * time, while each of them starts.
 */
#include <stddef.h>

#include "mm.h"

static struct {
    uint64_t next; /* first address not given away */
    uint64_t end;  /* both are multiples of PAGE_SIZE */
} pool;

void page_pool_init(struct range range)
{
    uint64_t pages = range.size / PAGE_SIZE;

    /* The first page stays untouched: it is the guest's reset doorbell (boot_info.h). */
    pool.next = range.base + PAGE_SIZE;
    pool.end = pages > 1 ? range.base + pages * PAGE_SIZE : pool.next;
}

uint64_t page_pool_free(void) { return (pool.end - pool.next) / PAGE_SIZE; }

void *page_alloc(uint64_t count)
{
    if (count == 0 || count > page_pool_free())
        return NULL;

    uint64_t *words = (uint64_t *)(uintptr_t)pool.next;
    uint64_t bytes = count * PAGE_SIZE;

    /* The firmware hands over memory with old contents in it. */
    for (uint64_t i = 0; i < bytes / sizeof(*words); i++)
        words[i] = 0;
    pool.next += bytes;
    return words;
}
