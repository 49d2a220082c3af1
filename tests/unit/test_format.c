/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests of text formatting, refusals and the log ring. The host's own snprintf is the oracle.
 */
#include "unit.h"

#include "console/log.h"
#include "lib/refusal.h"

#define SAME(...)                                                                                  \
    do {                                                                                           \
        char ours[128], theirs[128];                                                               \
        size_t length = format_text(ours, sizeof(ours), __VA_ARGS__);                              \
        int wanted = snprintf(theirs, sizeof(theirs), __VA_ARGS__);                                \
        assert_string_equal(ours, theirs);                                                         \
        assert_int_equal(length, wanted);                                                          \
    } while (0)

TEST(test_like_the_hosts)
{
    SAME("plain");
    SAME("%d %d %d %d", 0, 7, -7, INT32_MIN);
    SAME("%u %x", UINT32_MAX, UINT32_MAX);
    SAME("%ld %lu %lx", INT64_MIN, UINT64_MAX, UINT64_MAX);
    SAME("%8d|%-8d|%08d|%8x|%-8x|%08x", -42, -42, -42, 0xbeefu, 0xbeefu, 0xbeefu);
    SAME("%016lx %20lu %-20lu|", 0x123456789abcUL, 99UL, 99UL);
    SAME("%s|%8s|%-8s|%2s", "abc", "abc", "abc", "abc");
    SAME("%.*s|%.*s|%6.*s", 3, "abcdef", 9, "abc", 2, "abcdef");
    SAME("%c%c", 'o', 'k');
    SAME("%d0%%|%%", 9);
}

TEST(test_no_string)
{
    char out[16];
    const char *volatile none = NULL;
    format_text(out, sizeof(out), "%s", none);
    assert_string_equal(out, "(null)");
}

TEST(test_cut)
{
    for (size_t size = 0; size <= 24; size++) {
        char *out = malloc(size + (size == 0));
        size_t length = format_text(out, size, "%-10s%010d", "left", 12345);
        size_t wanted = size == 0 ? 0 : size - 1 < 20 ? size - 1 : 20;
        assert_int_equal(length, wanted);
        if (size > 0) {
            assert_int_equal(out[length], '\0');
            assert_memory_equal(out, "left      0000012345", length);
        }
        free(out);
    }
}

TEST(test_huge_width)
{
    char out[8];
    assert_int_equal(format_text(out, sizeof(out), "%999999999d", 1), 7);
    assert_string_equal(out, "       ");
}

TEST(test_refuse)
{
    struct refusal r;
    char text[400];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_false(refuse(&r, REFUSE_NOT_FOUND, "%s", text));
    assert_int_equal(r.kind, REFUSE_NOT_FOUND);
    assert_int_equal(strlen(r.line), sizeof(r.line) - 1);
}

/* ---- the log ---- */

static char seen[256];
static size_t seen_length;

static void sink(const char *text, size_t length)
{
    assert_true(seen_length + length < sizeof(seen));
    memcpy(seen + seen_length, text, length);
    seen_length += length;
}

TEST(test_log_sink)
{
    log_set_sink(LOG_SCREEN, sink);
    log_printf("one %d\n", 1);
    log_set_sink(LOG_SCREEN, NULL);
    log_printf("two\n");
    assert_int_equal(seen_length, 6);
    assert_memory_equal(seen, "one 1\n", 6);
}

TEST(test_log_ring)
{
    uint64_t position = 0;
    char part[32];

    while (log_read(&position, part, sizeof(part)) > 0)
        ;
    uint64_t start = position;
    log_printf("hello");
    assert_int_equal(log_read(&position, part, 3), 3);
    assert_memory_equal(part, "hel", 3);
    assert_int_equal(log_read(&position, part, sizeof(part)), 2);
    assert_int_equal(log_read(&position, part, sizeof(part)), 0);
    assert_int_equal(position, start + 5);

    /* More than the ring holds: reading begins at the oldest byte that is kept. */
    for (int i = 0; i < LOG_SIZE / 8 + 10; i++)
        log_printf("%07d\n", i);
    position = 0;
    assert_int_equal(log_read(&position, part, 8), 8);
    assert_int_equal(position, start + 5 + 8u * (LOG_SIZE / 8 + 10) - LOG_SIZE + 8);
    assert_memory_equal(part, "0000010\n", 8);
}

/* ---- the tail: every byte of it once, the newest at the end ---- */

static char caught[LOG_SIZE];
static size_t caught_length;

static void catch (const char *text, size_t length)
{
    assert_true(caught_length + length < sizeof(caught));
    memcpy(caught + caught_length, text, length);
    caught_length += length;
    caught[caught_length] = '\0';
}

TEST(test_log_tail)
{
    enum { LINES = 256, LINE = 8, TAIL = 1024 };

    for (int i = 0; i < LINES; i++)
        log_printf("%07d\n", i);
    log_set_sink(LOG_SCREEN, catch);
    log_print_tail(TAIL);
    log_set_sink(LOG_SCREEN, NULL);

    const char *at = strstr(caught, "0000128\n");
    assert_non_null(at); /* 1024 bytes are the last 128 lines */
    assert_null(strstr(caught, "0000127\n"));
    for (int i = LINES - TAIL / LINE; i < LINES; i++, at += LINE) {
        char line[16];
        snprintf(line, sizeof(line), "%07d\n", i);
        assert_memory_equal(at, line, LINE);
    }
    assert_contains(at, "end of the log");
    assert_null(strstr(at, "0000"));
}
