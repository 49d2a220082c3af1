/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The parts of the module: the trace that is set up (there is one at most), the hardware under it,
 * and the device.
 */
#pragma once

#include <linux/types.h>

#include "abi.h"

struct trace {
    struct branchtrace_setup setup;
    struct branchtrace_record *records;
    struct branchtrace_readout *readouts;
    size_t bytes; /* of both */
    int cpu;
    /* Read by the PMI handler of `cpu`. */
    bool active;
    bool draining;
    u32 used, readouts_used, pmis, cut;
    u32 idle_pmis; /* in a row, before which the thread had not gone on */
    u64 pmi_ip;
    u64 inserts_read; /* LBR_INSERTS at the last readout */
    u64 near_taken, inserts;
};

/* Whether this processor's PMU has what a trace needs; says what is missing. 0 or -ENODEV. */
int pmu_check(void);
/* Takes and gives back the counters. -EBUSY: perf has them, or the NMI watchdog. */
int pmu_reserve(void);
void pmu_release(void);
/* Programs this processor for the trace and lets it run; interrupts are off, as for the others. */
void pmu_start(struct trace *t);
/* Stops, and takes the records that are left. */
void pmu_stop(struct trace *t);
/* The same where the thread loses and gets back the processor: counters go on. */
void pmu_pause(struct trace *t);
void pmu_resume(struct trace *t);
