/* SPDX-License-Identifier: BSD-2-Clause
 *
 * traced_rings.h: the processors whose rings flowtrace or memtrace reads, and the file that the
 * rings are drained to.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "ring_reader.h"

#define PROCESSORS_MAX 512

struct traced {
    int processor;
    uint64_t level; /* that the hypervisor said before the trace */
    struct ring_reader reader;
};
extern struct traced traced[PROCESSORS_MAX];
extern int traced_count;

/* Says a line on standard error; gives 1. */
int say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Maps the ring of a processor by /dev/mem, which costs no exit. From now on its records are to be
 * read. 0, or 1 with a line said. */
int traced_add(int processor, uint64_t level, uint64_t ring, uint64_t bytes);

/* Writes all that is there now to the file. `most`, if it is not NULL, becomes the share of a ring
 * that was filled since the last time, in percent. 0, or 1 with a line said. */
int traced_drain(FILE *out, const char *path, unsigned *most);

/* The number of records that were overwritten before they were read. */
uint64_t traced_lost(void);
