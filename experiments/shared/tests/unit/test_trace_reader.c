/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The reader of the trace's rings: in order, whole, and every record that it does not give is
 * counted as lost, also while a writer, who waits for nobody, overtakes it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "experiments/shared/guest/ring_reader.h"

#define CAPACITY 64u
#define BYTES (TRACE_RING_HEADER_BYTES + CAPACITY * sizeof(struct trace_record))
#define WRITES 3000000u
#define AT_ONCE 48u

static _Alignas(4096) char memory[BYTES];
static struct trace_ring *const ring = (struct trace_ring *)memory;
static volatile struct trace_record
    *const records = (volatile struct trace_record *)(memory + TRACE_RING_HEADER_BYTES);

static void begin(void)
{
    memset(memory, 0, sizeof(memory));
    *ring = (struct trace_ring){.magic = TRACE_RING_MAGIC,
                                .version = TRACE_RING_VERSION,
                                .record_bytes = sizeof(struct trace_record),
                                .capacity = CAPACITY,
                                .apic_id = 5};
}

/* As entry.asm writes it: the fields, then the number. Each field says which record it is. */
static void write_record(void)
{
    uint64_t number = ring->written;
    volatile struct trace_record *to = &records[number % CAPACITY];

    to->tsc = number;
    to->rip = ~number;
    to->detail = (uint32_t)number;
    to->root_time = (uint32_t)(number * 7);
    __atomic_store_n(&ring->written, number + 1, __ATOMIC_RELEASE);
}

static void assert_is(const struct trace_record *record, uint64_t number)
{
    if (record->tsc != number || record->rip != ~number || record->detail != (uint32_t)number ||
        record->root_time != (uint32_t)(number * 7))
        fail_msg("record %lu is torn: %lu %lx %u %u", (unsigned long)number,
                 (unsigned long)record->tsc, (unsigned long)record->rip, record->detail,
                 record->root_time);
}

static void test_other_memory(void **state)
{
    (void)state;
    struct ring_reader reader;

    begin();
    assert_true(ring_reader_open(&reader, ring, BYTES));
    assert_false(ring_reader_open(&reader, ring, BYTES - 1));
    assert_false(ring_reader_open(&reader, ring, TRACE_RING_HEADER_BYTES));
    ring->version++;
    assert_false(ring_reader_open(&reader, ring, BYTES));
    begin();
    ring->magic ^= 1;
    assert_false(ring_reader_open(&reader, ring, BYTES));
    begin();
    ring->record_bytes = 64;
    assert_false(ring_reader_open(&reader, ring, BYTES));
    begin();
    ring->capacity = 1;
    assert_false(ring_reader_open(&reader, ring, BYTES));
}

/* What was written before it came is not its; then all of it, by pieces, around the ring's end. */
static void test_in_order(void **state)
{
    (void)state;
    struct trace_record got[AT_ONCE];
    struct ring_reader reader;
    uint64_t next = 10;

    begin();
    for (unsigned i = 0; i < 10; i++)
        write_record();
    assert_true(ring_reader_open(&reader, ring, BYTES));
    assert_int_equal(ring_reader_take(&reader, got, AT_ONCE).count, 0);
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < round % (CAPACITY - 1); i++)
            write_record();
        struct trace_chunk chunk;
        do {
            chunk = ring_reader_take(&reader, got, AT_ONCE);
            assert_int_equal(chunk.lost, 0);
            assert_int_equal(chunk.apic_id, 5);
            assert_int_equal(chunk.first, next);
            for (uint32_t i = 0; i < chunk.count; i++)
                assert_is(&got[i], next++);
        } while (chunk.count == AT_ONCE);
        assert_int_equal(next, ring->written);
    }
}

/* One more than fits: the oldest is lost, because the next one may be on its way to its place. */
static void test_overtaken(void **state)
{
    (void)state;
    struct trace_record got[CAPACITY];
    struct ring_reader reader;

    for (unsigned written = 0; written < 4 * CAPACITY; written++) {
        begin();
        assert_true(ring_reader_open(&reader, ring, BYTES));
        for (unsigned i = 0; i < written; i++)
            write_record();
        unsigned lost = written > CAPACITY - 1 ? written - (CAPACITY - 1) : 0;
        struct trace_chunk chunk = ring_reader_take(&reader, got, CAPACITY);
        assert_int_equal(chunk.lost, lost);
        assert_int_equal(chunk.first, lost);
        assert_int_equal(chunk.count, written - lost);
        assert_int_equal(reader.lost, lost);
        for (uint32_t i = 0; i < chunk.count; i++)
            assert_is(&got[i], lost + i);
    }
}

static void *writer(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < WRITES; i++) {
        write_record();
        for (unsigned pause = i / 1000 % 40; pause > 0; pause--)
            __asm__ volatile("pause");
    }
    return NULL;
}

/* A writer that is faster at times: no record is torn, none comes twice, none is unaccounted for.
 */
static void test_race(void **state)
{
    (void)state;
    struct trace_record got[AT_ONCE];
    struct ring_reader reader;
    uint64_t next = 0, read = 0;
    pthread_t thread;

    begin();
    assert_true(ring_reader_open(&reader, ring, BYTES));
    assert_int_equal(pthread_create(&thread, NULL, writer, NULL), 0);
    while (next < WRITES) {
        struct trace_chunk chunk = ring_reader_take(&reader, got, AT_ONCE);
        next += chunk.lost;
        assert_int_equal(chunk.first, next);
        for (uint32_t i = 0; i < chunk.count; i++)
            assert_is(&got[i], next++);
        read += chunk.count;
    }
    pthread_join(thread, NULL);
    assert_int_equal(read + reader.lost, WRITES);
    assert_true(read > 0 && reader.lost > 0);
}

/* The file's bytes are the chunks', after one head. */
static void test_file(void **state)
{
    (void)state;
    struct trace_record got[AT_ONCE];
    struct ring_reader reader;
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    begin();
    ring->tsc_khz = 50000;
    assert_true(ring_reader_open(&reader, ring, BYTES));
    assert_true(trace_file_head(out, ring, TRACE_FLOW, 1));
    for (unsigned i = 0; i < 3; i++)
        write_record();
    struct trace_chunk chunk = ring_reader_take(&reader, got, AT_ONCE);
    assert_true(trace_file_chunk(out, &chunk, got));
    fclose(out);
    assert_int_equal(length, sizeof(struct trace_file) + sizeof(chunk) + 3 * sizeof(*got));
    assert_memory_equal(text, "PMUtrcfl", 8);
    assert_memory_equal(text + sizeof(struct trace_file), "PMUchunk", 8);
    assert_memory_equal(text + length - 3 * sizeof(*got), got, 3 * sizeof(*got));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_memory), cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_overtaken),    cmocka_unit_test(test_race),
        cmocka_unit_test(test_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
