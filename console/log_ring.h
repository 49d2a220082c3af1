/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The layout of the log's ring in memory. A start after a warm reset finds the ring there.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "boot_info.h"
#include "console/log.h"

#define LOG_MAGIC_BYTES 16
#define CACHE_LINE 64 /* bytes, on all processors with VMX; SDM Vol. 2, "CLFLUSH" */

struct log_ring {
    char magic[LOG_MAGIC_BYTES]; /* zero: no later start finds this ring */
    uint64_t end;                /* number of bytes logged since the start */
    uint64_t sum;                /* checksum of `end` and of the text bytes, weighted by place */
    char text[LOG_SIZE] __attribute__((aligned(CACHE_LINE)));
};

/* Copies `from` to `to` and adds the magic, so that a later start finds the ring. */
void log_ring_start(struct log_ring *to, const struct log_ring *from);
/* Appends text. If the ring has the magic, also writes the text from the caches to memory, because
 * a reset drops the contents of the caches. */
void log_ring_append(struct log_ring *ring, const char *text, size_t length);
/* Clears the magic. */
void log_ring_end(struct log_ring *ring);

/* Tells what lies in memory at `at`, which is page-aligned: no ring, a ring as it was written, or a
 * damaged ring. A ring is damaged if something changed it after the last write, or if a reset
 * interrupted a write. */
enum log_ring_state { LOG_RING_NONE, LOG_RING_DAMAGED, LOG_RING_WHOLE };
enum log_ring_state log_ring_check(const struct log_ring *at);
/* Returns the text in two pieces, the older piece first. The first piece is empty while the ring is
 * not full. */
void log_ring_get_text(const struct log_ring *ring, struct range pieces[2]);
