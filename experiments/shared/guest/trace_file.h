/* SPDX-License-Identifier: BSD-2-Clause
 *
 * trace_file.h: the file that flowtrace and memtrace write: a head, then chunks of records of one
 * processor each, in order. Little endian. experiments/shared/analysis/records.py reads it.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "trace_ring.h"

#define TRACE_FILE_MAGIC 0x6c66637274554d50u /* "PMUtrcfl" */
#define TRACE_FILE_VERSION 1
#define TRACE_CHUNK_MAGIC 0x6b6e756863554d50u /* "PMUchunk" */

struct trace_file {
    uint64_t magic;
    uint32_t version;
    uint32_t record_bytes;
    uint64_t tsc_khz; /* 0: not known */
    uint32_t level;   /* TRACE_*, of the run */
    uint32_t processors;
    /* With TRACE_MEMORY, else 0. */
    uint32_t memory;  /* MEMTRACE_*, of the run */
    uint32_t counter; /* TRACE_COUNTER_* */
    uint64_t unread;  /* pages whose reads were not seen */
    uint64_t xcr0;    /* the guest's: what XSAVE saves */
};

struct trace_chunk {
    uint64_t magic;
    uint32_t apic_id;
    uint32_t count; /* of the records after it */
    uint64_t first; /* the first one's number */
    uint64_t lost;  /* records right before it that nobody read in time */
};

/* Write one of the two. False, with errno: the file could not take it. */
int trace_file_head(FILE *out, const struct trace_ring *ring, uint32_t level, uint32_t processors);
int trace_file_chunk(FILE *out, const struct trace_chunk *chunk,
                     const struct trace_record *records);
