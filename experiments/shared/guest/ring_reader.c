/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ring_reader.c: the reader's side of trace_ring.h. The writer stores a record before its
 * number, and x86 shows stores and loads in their order (SDM Vol. 3, "Memory Ordering in P6 and
 * More Recent Processor Families"): what `written` counts is whole, and what was overwritten during
 * a copy shows in a later `written`.
 */
#include "ring_reader.h"

#include <stddef.h>

static uint64_t written(const struct ring_reader *reader)
{
    return __atomic_load_n(&reader->ring->written, __ATOMIC_ACQUIRE);
}

/* Of the records up to `end`, the first one that is whole for sure: another may be half written,
 * or, of memory accesses, those of one instruction's read and write. */
static uint64_t oldest(const struct ring_reader *reader, uint64_t end)
{
    uint64_t writing = reader->ring->level == TRACE_MEMORY ? 2 * TRACE_MEMORY_FRAMES : 1;
    uint64_t kept = reader->ring->capacity - writing;

    return end > kept ? end - kept : 0;
}

bool ring_reader_open(struct ring_reader *reader, const volatile void *ring, uint64_t bytes)
{
    const volatile struct trace_ring *head = ring;

    if (bytes <= TRACE_RING_HEADER_BYTES || head->magic != TRACE_RING_MAGIC ||
        head->version != TRACE_RING_VERSION || head->record_bytes != sizeof(struct trace_record) ||
        head->capacity <= 2 * TRACE_MEMORY_FRAMES ||
        head->capacity > (bytes - TRACE_RING_HEADER_BYTES) / sizeof(struct trace_record))
        return false;
    *reader = (struct ring_reader){
        .ring = head,
        .records = (const volatile void *)((const volatile char *)ring + TRACE_RING_HEADER_BYTES)};
    reader->next = reader->begun = written(reader);
    return true;
}

static void copy(struct trace_record *to, const volatile struct trace_record *from)
{
    const volatile uint64_t *source = (const volatile void *)from;
    uint64_t *target = (void *)to;

    for (unsigned i = 0; i < sizeof(*to) / sizeof(*target); i++)
        target[i] = source[i];
}

struct trace_chunk ring_reader_take(struct ring_reader *reader, struct trace_record *to,
                                    uint32_t most)
{
    uint64_t end = written(reader), capacity = reader->ring->capacity;
    uint64_t first = oldest(reader, end) > reader->next ? oldest(reader, end) : reader->next;
    uint32_t count = end - first < most ? (uint32_t)(end - first) : most;

    for (uint32_t i = 0; i < count; i++)
        copy(&to[i], &reader->records[(first + i) % capacity]);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    uint64_t whole = oldest(reader, written(reader));
    uint32_t gone = 0;
    if (whole > first)
        gone = whole - first < count ? (uint32_t)(whole - first) : count;
    for (uint32_t i = gone; i < count && gone != 0; i++)
        to[i - gone] = to[i];
    struct trace_chunk chunk = {.magic = TRACE_CHUNK_MAGIC,
                                .apic_id = reader->ring->apic_id,
                                .count = count - gone,
                                .first = first + gone,
                                .lost = first + gone - reader->next};
    reader->lost += chunk.lost;
    reader->next = first + count;
    return chunk;
}
