/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Copies of the guest's map with fewer rights, and root mode's own view of the guest's memory.
 */
#pragma once

#include "mm/mm.h"

enum ept_copy_as {
    /* Keeps the map's leaves, and splits a leaf if only part of it is denied. */
    EPT_COPY_AS_IT_IS,
    /* Uses 4 KiB pages for the whole denied range, so that they can be changed one by one later. */
    EPT_COPY_SMALL,
    /* Makes entries of root mode's own tables, for reads and writes of memory. */
    EPT_COPY_HOST,
};
struct ept_copy {
    enum ept_copy_as as;
    uint64_t deny;  /* rights of EPT_RWX that the copy denies between `first` and `last` */
    bool devices;   /* false: `deny` applies to memory; true: `deny` applies to everything else */
    uint64_t first; /* first byte of the range; EPT_COPY_HOST maps only memory in the range */
    uint64_t last;  /* last byte of the range */
    bool page_1g;   /* EPT_COPY_HOST: root mode can use 1 GiB pages */
    uint64_t *next; /* the next free table page */
    uint64_t *end;  /* end of the free table pages */
};
/* Returns the copy's root, or 0 if the pages run out. */
uint64_t ept_copy(uint64_t root, struct ept_copy *c);
/* Maps the memory below physical address EPT_COPY_HOST_LIMIT in the host tables at `host_root`. The
 * linear address of a byte is its physical address plus EPT_COPY_HOST_LIMIT. The limit is half of
 * the canonical addresses that start at 0. Returns false if the pages run out. */
#define EPT_COPY_HOST_LIMIT (1ULL << 46)
bool ept_copy_to_host(uint64_t root, struct ept_copy *c, uint64_t host_root);
/* Returns the number of tables that a map has. */
uint64_t ept_count_tables(uint64_t root);
