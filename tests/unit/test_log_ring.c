/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests of the log that a reset leaves in memory: what another program finds there is what was
 * logged, oldest byte first; what was changed since is said to be; what ended in order is not
 * found.
 */
#include "unit.h"

#include "console/log_ring.h"
#include "random.h"

static char all[8 * LOG_SIZE]; /* everything that was logged */
static size_t all_length;

static void keep_all(const char *text, size_t length)
{
    assert_true(all_length + length < sizeof(all));
    memcpy(all + all_length, text, length);
    all_length += length;
}

static struct log_ring *new_memory(void)
{
    static struct log_ring places[8] __attribute__((aligned(CACHE_LINE)));
    static unsigned used;
    struct log_ring *ring = &places[used++];

    assert_true(used <= COUNT(places));
    memset(ring, 0xa5, sizeof(*ring)); /* as after power-on */
    return ring;
}

/* Both pieces are the last LOG_SIZE bytes of what was logged. */
static void expect_text(const struct log_ring *ring)
{
    static char found[LOG_SIZE];
    struct range pieces[2];

    log_ring_get_text(ring, pieces);
    size_t length = pieces[0].size + pieces[1].size;
    assert_true(length <= LOG_SIZE);
    assert_int_equal(length, all_length < LOG_SIZE ? all_length : LOG_SIZE);
    memcpy(found, (const void *)(uintptr_t)pieces[0].base, pieces[0].size);
    memcpy(found + pieces[0].size, (const void *)(uintptr_t)pieces[1].base, pieces[1].size);
    assert_memory_equal(found, all + all_length - length, length);
}

TEST(test_found_at_every_length)
{
    struct log_ring *ring = new_memory(), *copy = new_memory();

    assert_int_equal(log_ring_check(ring), LOG_RING_NONE);
    log_set_sink(LOG_SCREEN, keep_all);
    log_printf("before the move\n");
    log_move_ring(ring);
    for (unsigned i = 0; all_length < 3 * LOG_SIZE; i++) {
        assert_int_equal(log_ring_check(ring), LOG_RING_WHOLE);
        expect_text(ring);
        /* A reset leaves a copy, as far as this program goes. */
        memcpy(copy, ring, sizeof(*ring));
        assert_int_equal(log_ring_check(copy), LOG_RING_WHOLE);
        log_printf("%0*u\n", 1 + (int)random_below(300), i);
    }
    /* Exactly to the ring's end. */
    while (all_length % LOG_SIZE != 0)
        log_printf("x");
    assert_int_equal(log_ring_check(ring), LOG_RING_WHOLE);
    expect_text(ring);
}

TEST(test_each_changed_byte_is_seen)
{
    struct log_ring *ring = new_memory(), *changed = new_memory();

    log_move_ring(ring);
    memcpy(changed, ring, sizeof(*ring));
    for (size_t i = 0; i < LOG_SIZE; i++) {
        changed->text[i] ^= (char)(1 + random_below(255));
        assert_int_equal(log_ring_check(changed), LOG_RING_DAMAGED);
        changed->text[i] = ring->text[i];
    }
    changed->end += 1 + random_below(LOG_SIZE);
    assert_int_equal(log_ring_check(changed), LOG_RING_DAMAGED);
    changed->end = ring->end;
    assert_int_equal(log_ring_check(changed), LOG_RING_WHOLE);
    for (size_t i = 0; i < LOG_MAGIC_BYTES; i++) {
        changed->magic[i] ^= 1;
        assert_int_equal(log_ring_check(changed), LOG_RING_NONE);
        changed->magic[i] ^= 1;
    }
}

/* Whatever memory holds: pieces inside the ring, whatever `end` is. */
TEST(test_any_bytes)
{
    struct log_ring *ring = new_memory();
    struct range pieces[2];

    for (unsigned i = 0; i < 1000; i++) {
        ring->end = (uint64_t)random_below(UINT32_MAX) << random_below(33);
        log_ring_get_text(ring, pieces);
        for (unsigned k = 0; k < 2; k++) {
            assert_true(pieces[k].base >= (uintptr_t)ring->text);
            assert_true(pieces[k].base + pieces[k].size <= (uintptr_t)ring->text + LOG_SIZE);
        }
    }
}

TEST(test_an_end_in_order)
{
    struct log_ring *ring = new_memory();

    log_move_ring(ring);
    log_finish();
    assert_int_equal(log_ring_check(ring), LOG_RING_NONE);
    log_printf("the report comes after it\n");
    assert_int_equal(log_ring_check(ring), LOG_RING_NONE);
}
