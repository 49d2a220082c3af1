/* SPDX-License-Identifier: BSD-2-Clause
 *
 * trace_file.c: writes what trace_file.h describes.
 */
#include "trace_file.h"

int trace_file_head(FILE *out, const struct trace_ring *ring, uint32_t level, uint32_t processors)
{
    const struct trace_file head = {.magic = TRACE_FILE_MAGIC,
                                    .version = TRACE_FILE_VERSION,
                                    .record_bytes = sizeof(struct trace_record),
                                    .tsc_khz = ring->tsc_khz,
                                    .level = level,
                                    .processors = processors};

    return fwrite(&head, sizeof(head), 1, out) == 1;
}

int trace_file_chunk(FILE *out, const struct trace_chunk *chunk, const struct trace_record *records)
{
    return fwrite(chunk, sizeof(*chunk), 1, out) == 1 &&
           fwrite(records, sizeof(*records), chunk->count, out) == chunk->count;
}
