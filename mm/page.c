/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The page allocator: hands out the pool from its low end upwards and never takes a page back.
 * Touches only the pool. Used while the processors start, one after the other. But a processor that
 * was given up as lost may arrive late, so allocation is atomic.
 */
#include <string.h>

#include "mm/mm.h"

static struct {
    uint64_t next; /* first free address; a multiple of PAGE_SIZE */
    uint64_t end;  /* end of the pool; a multiple of PAGE_SIZE */
} pool;
static void (*pool_end)(uint64_t count);

void page_pool_init(struct range range)
{
    uint64_t pages = range.size / PAGE_SIZE;

    /* The first page stays untouched, because it is the guest's reset doorbell (boot_info.h). */
    pool.next = range.base + PAGE_SIZE;
    pool.end = pages > 1 ? range.base + pages * PAGE_SIZE : pool.next;
}

void page_pool_set_exhausted_hook(void (*end)(uint64_t count)) { pool_end = end; }

uint64_t page_pool_free(void) { return (pool.end - pool.next) / PAGE_SIZE; }

void *page_alloc(uint64_t count)
{
    uint64_t at = pool.next, bytes = count * PAGE_SIZE;

    do {
        if (count == 0 || count > (pool.end - at) / PAGE_SIZE)
            pool_end(count);
    } while (!__atomic_compare_exchange_n(&pool.next, &at, at + bytes, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    /* The firmware hands over memory with old contents in it. */
    return memset((void *)(uintptr_t)at, 0, bytes);
}
