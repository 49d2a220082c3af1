/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Copies of the guest's map with fewer rights, and root mode's own view of the guest's memory.
 */
#pragma once

#include "mm/mm.h"

enum ept_copy_as {
    EPT_COPY_AS_IT_IS, /* with the leaves of the map; what is denied in part is split */
    EPT_COPY_SMALL, /* with 4 KiB pages where something is denied, to be changed one by one later */
    EPT_COPY_HOST,  /* entries of root mode's own tables, for reads and writes of memory */
};
struct ept_copy {
    enum ept_copy_as as;
    uint64_t deny;  /* rights of EPT_RWX that the copy denies between `first` and `last` */
    bool devices;   /* deny there what is not memory, instead of memory */
    uint64_t first; /* EPT_COPY_HOST maps only memory from `first` to `last` */
    uint64_t last;  /* the last byte, inclusive */
    bool page_1g;   /* EPT_COPY_HOST: root mode can use 1 GiB pages */
    uint64_t *next; /* the next free table page */
    uint64_t *end;  /* end of the free table pages */
};
/* Gives the copy's root; 0: out of pages. */
uint64_t ept_copy(uint64_t root, struct ept_copy *c);
/* Physical address A is at EPT_COPY_HOST_LIMIT + A of these tables then, as far as A is below that
 * limit, which is half of what they can have. False: out of pages. */
#define EPT_COPY_HOST_LIMIT (1ULL << 46)
bool ept_copy_to_host(uint64_t root, struct ept_copy *c, uint64_t host_root);
/* How many tables a map has. */
uint64_t ept_tables(uint64_t root);
