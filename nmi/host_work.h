/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A workload in root mode that owns the PMU for a while and takes PMIs of its own: the P_Host of
 * the thesis's section 4.4.2.
 */
#pragma once

#include "nmi/nmi.h"

#define COUNTER_BITS BITS(47, 0)
#define STATUS_COUNTER_0 BIT(0)

struct host_work {
    uint64_t branches, period;            /* the latter from one PMI to the next */
    const struct branch_records *records; /* on meanwhile; NULL: none */
    bool counting;                        /* from the counter's start to its stop */
    /* What came of it. */
    uint64_t pmis, counted; /* taken; branches that the counter saw */
    unsigned own;           /* of the branch records at the end, how many are the workload's */
};

/* Executes the branches in root mode with one PMI every `period` of them, then puts the guest's
 * PMU, LVTPC and NMIs back as they were, and its branch records, which only work that records
 * touches and pays for. False: refused with a line in the log, nothing was done. */
bool host_work_run(struct cpu *cpu, struct host_work *work);

/* source.c, NMI context. At an NMI's start: stops the host's counter. True: it is to be started
 * again at the end. */
bool host_work_pause(const struct cpu *cpu);
