/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The log's ring as it lies in memory, where a start after a warm reset finds it again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "console/log.h"

#define LOG_MAGIC_BYTES 16
#define CACHE_LINE 64 /* bytes, on all processors with VMX; SDM Vol. 2, "CLFLUSH" */

struct log_ring {
    char magic[LOG_MAGIC_BYTES]; /* zero: nothing to be found */
    uint64_t end;                /* number of bytes logged since the start */
    uint64_t sum;                /* of `end`, and of each byte of the text with its place */
    char text[LOG_SIZE] __attribute__((aligned(CACHE_LINE)));
};

/* Copies `from` to `to` and adds the magic, so that a later start can find what is appended. */
void kept_start(struct log_ring *to, const struct log_ring *from);
/* Appends text. If the ring has the magic, also writes it back from the caches, which no reset
 * does. */
void kept_append(struct log_ring *ring, const char *text, size_t length);
/* Clears the magic. */
void kept_end(struct log_ring *ring);

/* Tells what lies in memory at `at`, which is page-aligned: a ring as it was written, a ring that
 * was changed since (or that a reset interrupted while it was written), or no ring. */
enum kept { KEPT_NONE, KEPT_DAMAGED, KEPT_WHOLE };
enum kept kept_check(const struct log_ring *at);
/* Gives the text in two pieces, oldest first. The first is empty while the ring is not full. */
struct kept_piece {
    const char *text;
    size_t length;
};
void kept_get_text(const struct log_ring *ring, struct kept_piece pieces[2]);
