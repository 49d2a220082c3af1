/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A workload in root mode that owns the PMU for a while and takes its own PMIs: P_Host in the
 * thesis, section 4.4.2.
 */
#pragma once

#include "nmi/nmi.h"

#define COUNTER_BITS BITS(47, 0)
#define STATUS_COUNTER_0 BIT(0)

struct host_work {
    uint64_t branches;                    /* branch instructions to execute */
    uint64_t period;                      /* branches from one PMI to the next */
    const struct branch_records *records; /* records to turn on during the work; NULL: none */
    bool counting;                        /* true while the host's counter runs */
    /* The results. */
    uint64_t pmis;    /* PMIs taken */
    uint64_t counted; /* branches that the counter counted */
    unsigned own;     /* number of branch records that come from the workload, at its end */
};

/* Executes the branches in root mode with one PMI every `period` branches. Then restores the
 * guest's PMU, LVTPC and NMIs. If the work records branches, also saves and restores the guest's
 * branch records. Work without records does not touch these records and does not pay for them. If
 * the local APIC is disabled, refuses the work: logs a line, does nothing else, and returns
 * false. */
bool host_work_run(struct cpu *cpu, struct host_work *work);

/* source.c, NMI context: called at the start of root mode's NMI handler. If host work runs, stops
 * the host's counter. Returns whether the handler must start the counter again at its end. */
bool host_work_stop_counter(const struct cpu *cpu);
