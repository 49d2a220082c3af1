/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A pool for the page allocator out of the test's own memory: to the code under test a pointer is
 * a physical address.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "mm/mm.h"

#define POOL_ALIGNMENT (2ULL << 20)

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

static inline void pool_free(struct range pool) { free((void *)(uintptr_t)pool.base); }
