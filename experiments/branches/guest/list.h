/* SPDX-License-Identifier: BSD-2-Clause
 * list.h: from what the module read to the list of the stretch's own branches. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

/* Further bits of branchtrace_record.info, of the list's own. */
#define LIST_AFTER_READOUT (1ull << 33) /* its cycles have a PMI and its handler in them */
#define LIST_AFTER_GAP (1ull << 34)     /* records are missing in front of it */
#define LIST_AFTER_SWITCH (1ull << 35)  /* the thread has its processor back, in the kernel */

/* Addresses that bound the stretch: what SYSRET of START goes to, and the SYSCALL of STOP. */
struct bounds {
    uint64_t begin;
    uint64_t end;
};

struct list {
    struct branchtrace_record *records; /* the branches of the stretch, in the module's buffer */
    size_t count;
    size_t own;        /* taken out: the ways back from our own PMIs */
    size_t outside;    /* taken out: of START's and STOP's system calls */
    size_t missing;    /* records that the module knows to be overwritten */
    size_t gaps;       /* places where one branch's target does not lead to the next branch */
    int64_t lost;      /* LBR_INSERTS less the records that were read; negative: invented ones */
    int64_t near_lost; /* NEAR_TAKEN less the near branches read; 0 where it cannot be said */
};

/* Cleans the module's records in place. `flags` are the setup's. */
void list_clean(struct list *list, struct branchtrace_record *records,
                const struct branchtrace_readout *readouts, const struct branchtrace_result *result,
                uint32_t flags, const struct bounds *bounds);

/* Whether the list is complete: nothing lost, no gap, nothing invented. */
bool list_complete(const struct list *list);

static inline bool user_address(uint64_t address) { return (int64_t)address >= 0; }
