/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Keeps the log's ring in memory that a warm reset leaves alone. A reset drops the contents of the
 * caches, so each piece of text is flushed to memory. SDM Vol. 2, "CLFLUSH-Flush Cache Line".
 */
#include "console/log_ring.h"

#include <string.h>

static const char magic[LOG_MAGIC_BYTES] = "PMUvisor's log";

/* The checksum contains this number for each byte logged. It is larger than the weight of any byte,
 * so an error in `end` and an error in one byte of text cannot cancel out. */
#define BYTE_LOGGED ((uint64_t)LOG_SIZE << 16)

static uint64_t ring_offset(uint64_t position) { return position & (LOG_SIZE - 1); }

static uint64_t get_checksum_term(uint64_t place, char c) { return (place + 1) * (unsigned char)c; }

static void flush_cache_line(const void *line)
{
    __asm__ volatile("clflush (%0)" : : "r"(line) : "memory");
}

/* Flushes the text from byte number `from` on. Flushes the header last, because the header says
 * that the text exists. */
static void write_back_ring(const struct log_ring *ring, uint64_t from)
{
    for (uint64_t at = from & ~(uint64_t)(CACHE_LINE - 1); at < ring->end; at += CACHE_LINE)
        flush_cache_line(&ring->text[ring_offset(at)]);
    flush_cache_line(ring);
    __asm__ volatile("mfence" : : : "memory");
}

void log_ring_append(struct log_ring *ring, const char *text, size_t length)
{
    uint64_t from = ring->end;

    for (size_t i = 0; i < length; i++) {
        uint64_t at = ring_offset(ring->end++);
        ring->sum += get_checksum_term(at, text[i]) - get_checksum_term(at, ring->text[at]) +
                     BYTE_LOGGED;
        ring->text[at] = text[i];
    }
    if (ring->magic[0] != 0)
        write_back_ring(ring, from);
}

void log_ring_start(struct log_ring *to, const struct log_ring *from)
{
    memcpy(to, from, sizeof(*to));
    memcpy(to->magic, magic, sizeof(magic));
    write_back_ring(to, to->end > LOG_SIZE ? to->end - LOG_SIZE : 0);
}

void log_ring_end(struct log_ring *ring)
{
    memset(ring->magic, 0, sizeof(ring->magic));
    write_back_ring(ring, ring->end);
}

enum log_ring_state log_ring_check(const struct log_ring *at)
{
    uint64_t sum = at->end * BYTE_LOGGED;

    if (memcmp(at->magic, magic, sizeof(magic)) != 0)
        return LOG_RING_NONE;
    for (uint64_t i = 0; i < LOG_SIZE; i++)
        sum += get_checksum_term(i, at->text[i]);
    return sum == at->sum ? LOG_RING_WHOLE : LOG_RING_DAMAGED;
}

void log_ring_get_text(const struct log_ring *ring, struct range pieces[2])
{
    uint64_t end = ring_offset(ring->end), older = ring->end >= LOG_SIZE ? LOG_SIZE - end : 0;

    pieces[0] = (struct range){(uintptr_t)ring->text + end, older};
    pieces[1] = (struct range){(uintptr_t)ring->text, end};
}
