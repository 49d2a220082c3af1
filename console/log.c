/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The log: a ring of the last LOG_SIZE bytes and the sinks that show it. One processor logs at a
 * time. Touches only the ring. log_move_ring() moves the ring to a place where the next start finds
 * it (console/log_ring.c).
 */
#include "console/log.h"

#include <stdbool.h>

#include "console/log_ring.h"

_Static_assert((LOG_SIZE & (LOG_SIZE - 1)) == 0, "the ring is indexed by a mask");

static struct log_ring first;
static struct log_ring *ring = &first;
static bool locked;
static bool taken_over; /* the lock is ignored, because a stopped processor may hold it */
static log_sink sinks[LOG_PLACES];

static void lock(void)
{
    while (__atomic_test_and_set(&locked, __ATOMIC_ACQUIRE) &&
           !__atomic_load_n(&taken_over, __ATOMIC_RELAXED))
        __asm__ volatile("pause");
}

static void unlock(void) { __atomic_clear(&locked, __ATOMIC_RELEASE); }

void log_break_lock(void) { unlock(); }

void log_ignore_lock(void) { __atomic_store_n(&taken_over, true, __ATOMIC_RELAXED); }

void log_set_sink(enum log_place place, log_sink sink) { sinks[place] = sink; }

static void write_to_sinks(const char *text, size_t length)
{
    for (size_t i = 0; i < LOG_PLACES; i++)
        if (sinks[i] != NULL)
            sinks[i](text, length);
}

void log_printf(const char *format, ...)
{
    char line[LOG_LINE];
    va_list arguments;

    va_start(arguments, format);
    size_t length = format_text_v(line, sizeof(line), format, arguments);
    va_end(arguments);

    lock();
    log_ring_append(ring, line, length);
    write_to_sinks(line, length);
    unlock();
}

void log_print_tail(uint64_t size)
{
    const uint64_t end = ring->end, start = end > size ? end - size : 0;

    log_printf("---- the log's last %lu bytes ----\n", end - start);
    for (uint64_t at = start; at < end; at++)
        write_to_sinks(&ring->text[at & (LOG_SIZE - 1)], 1);
    log_printf("\n---- end of the log ----\n");
}

void log_move_ring(struct log_ring *to)
{
    log_ring_start(to, ring);
    ring = to;
}

const struct log_ring *log_get_ring(void) { return ring; }

void log_finish(void) { log_ring_end(ring); }

size_t log_read(uint64_t *position, char *out, size_t size)
{
    size_t n = 0;

    lock();
    uint64_t oldest = ring->end > LOG_SIZE ? ring->end - LOG_SIZE : 0;
    if (*position < oldest)
        *position = oldest;
    while (n < size && *position < ring->end)
        out[n++] = ring->text[(*position)++ & (LOG_SIZE - 1)];
    unlock();
    return n;
}
