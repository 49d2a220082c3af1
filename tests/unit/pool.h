/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A pool for the page allocator out of the test's own memory: to the code under test a pointer is
 * a physical address.
 */
#pragma once

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "boot_info.h"
#include "mm/mm.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

/* Old contents in it, as on a real machine. The caller frees (void *)(uintptr_t)base. */
static inline struct range pool_new(uint64_t pages)
{
    uint64_t size = pages * PAGE_SIZE;
    uint64_t rounded = (size + POOL_ALIGNMENT - 1) / POOL_ALIGNMENT * POOL_ALIGNMENT;
    void *memory = aligned_alloc(POOL_ALIGNMENT, rounded);

    if (memory == NULL)
        abort();
    memset(memory, 0xa5, rounded);
    return (struct range){.base = (uintptr_t)memory, .size = size};
}

/* Fails unless a call of `function` uses up the pool. */
static jmp_buf pool_used_up;
static inline void leave_used_up_pool(uint64_t count)
{
    (void)count;
    longjmp(pool_used_up, 1);
}
static inline void assert_uses_up_pool(void (*function)(void))
{
    page_pool_set_exhausted_hook(leave_used_up_pool);
    if (setjmp(pool_used_up) == 0) {
        function();
        fail_msg("the pool was not used up");
    }
}

static inline void pool_free(struct range pool) { free((void *)(uintptr_t)pool.base); }
