/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The log's ring as it lies in memory, where a start after a warm reset finds it again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "console/log.h"

#define LOG_MAGIC_BYTES 16
#define CACHE_LINE 64 /* of all processors with VMX; SDM Vol. 2, "CLFLUSH" */

struct log_ring {
    char magic[LOG_MAGIC_BYTES]; /* zero: nothing to be found */
    uint64_t end, sum; /* bytes logged since the start; of that, and of each byte with its place */
    char text[LOG_SIZE] __attribute__((aligned(CACHE_LINE)));
};

/* Copies `from` to `to`, with the magic: from here on what is appended can be found. */
void kept_start(struct log_ring *to, const struct log_ring *from);
/* Appends, and writes a ring that can be found back from the caches, which no reset does. */
void kept_append(struct log_ring *ring, const char *text, size_t length);
/* Takes the magic away. */
void kept_end(struct log_ring *ring);

/* What lies in memory at `at`, page-aligned: a ring that is as it was written, one that was changed
 * since (or a reset came while it was written), or none. */
enum kept { KEPT_NONE, KEPT_DAMAGED, KEPT_WHOLE };
enum kept kept_look(const struct log_ring *at);
/* The text, oldest byte first: up to two pieces, the first of size 0 while the ring is not full. */
struct kept_piece {
    const char *text;
    size_t length;
};
void kept_text(const struct log_ring *ring, struct kept_piece pieces[2]);
