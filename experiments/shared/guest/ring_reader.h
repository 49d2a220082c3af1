/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ring_reader.h: reads one ring while its processor writes on, which nothing stops. Knows no
 * hardware.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "trace_file.h"

struct ring_reader {
    const volatile struct trace_ring *ring;
    const volatile struct trace_record *records;
    uint64_t begun; /* the number of the first record that was to be read */
    uint64_t next;  /* and of the one that is read next */
    uint64_t lost;  /* in all */
};

/* Begins with what is written from now on. False: this is no ring that the reader knows. */
bool ring_reader_open(struct ring_reader *reader, const volatile void *ring, uint64_t bytes);

/* Copies up to `most` records after those that were read. Gives the chunk's head, without a count
 * where there is nothing new: `lost` is what was overwritten before it could be read. A record that
 * may have been overwritten while it was copied is lost, and never in the copy. */
struct trace_chunk ring_reader_take(struct ring_reader *reader, struct trace_record *to,
                                    uint32_t most);
