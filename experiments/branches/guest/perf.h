/* SPDX-License-Identifier: BSD-2-Clause
 * perf.h: the same list by perf_event_open() with a branch stack, where that can do it: user mode.
 */
#pragma once

#include "list.h"

struct perf_list {
    struct list list; /* its records are allocated */
    uint64_t samples;
    uint64_t near_taken;
    uint64_t lost; /* samples that the kernel says it lost or throttled */
};

/* Traces the work; `period` at most 31: the return from the PMI is a record, too. The branches
 * after the last PMI are in no sample: near_taken less the list's count says how many. False: an
 * error line was printed. */
bool perf_trace(const struct branchtrace_setup *setup, uint32_t region, void (*work)(void *),
                void *argument, struct perf_list *found);
