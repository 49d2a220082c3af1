/* SPDX-License-Identifier: BSD-2-Clause
 * test_branchtrace.c: what branchtrace takes out of the records that were read, which losses it
 * finds, and its map of edges.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "experiments/branches/guest/list.h"
#include "experiments/branches/guest/output.h"

#define KERNEL(address) (0xffffffff81000000ull + (address))
#define BEGIN 0x1000u
#define END 0x2000u
#define MANY 300

static const struct bounds bounds = {BEGIN, END};

static struct list clean(struct branchtrace_record *records,
                         const struct branchtrace_readout *reads, uint32_t readouts,
                         uint64_t inserts, uint64_t near_taken, uint32_t flags)
{
    struct branchtrace_result result = {
        .near_taken = near_taken, .inserts = inserts, .readouts = readouts};
    struct list list;

    for (uint32_t i = 0; i < readouts; i++)
        result.records += reads[i].count;
    list_clean(&list, records, reads, &result, flags, &bounds);
    return list;
}

static void a_whole_list_is_complete(void **state)
{
    struct branchtrace_record records[] = {{0x10, 0x40, 5}, {0x50, 0x20, 3}, {0x30, 0x90, 7}};
    struct branchtrace_readout reads[] = {{.ip = 0x22, .first = 0, .count = 2},
                                          {.first = 2, .count = 1, .why = BRANCHTRACE_BY_STOP}};
    struct list list = clean(records, reads, 2, 3, 3, BRANCHTRACE_USER);

    (void)state;
    assert_true(list_complete(&list));
    assert_int_equal(list.count, 3);
    assert_int_equal(list.own, 0);
    /* The cycles after a readout have the PMI in them. */
    assert_int_equal(list.records[2].info & LIST_AFTER_READOUT, LIST_AFTER_READOUT);
    assert_int_equal(list.records[1].info & LIST_AFTER_READOUT, 0);
}

/* Where the kernel gives the thread its processor back is not where it took it away. */
static void a_switch_is_no_gap(void **state)
{
    struct branchtrace_record records[] = {{KERNEL(0x10), KERNEL(0x9000), 5},
                                           {KERNEL(0x30), KERNEL(0x40), 7}};
    struct branchtrace_readout reads[] = {{.first = 0, .count = 1, .why = BRANCHTRACE_BY_SWITCH},
                                          {.first = 1, .count = 1, .why = BRANCHTRACE_BY_STOP}};
    struct list list = clean(records, reads, 2, 2, 2, BRANCHTRACE_KERNEL);

    (void)state;
    assert_true(list_complete(&list));
    reads[0].why = BRANCHTRACE_BY_STOP;
    records[0].info = records[1].info = 0;
    list = clean(records, reads, 2, 2, 2, BRANCHTRACE_KERNEL);
    assert_int_equal(list.gaps, 1);
}

static void what_is_missing_is_found(void **state)
{
    struct branchtrace_record records[] = {{0x10, 0x40, 5}, {0x30, 0x90, 7}};
    struct branchtrace_readout reads[] = {{.first = 0, .count = 2, .why = BRANCHTRACE_BY_STOP}};
    struct list list = clean(records, reads, 1, 3, 3, BRANCHTRACE_USER);

    (void)state;
    assert_false(list_complete(&list));
    assert_int_equal(list.lost, 1);
    assert_int_equal(list.near_lost, 1);
    /* Nothing straight leads from 0x40 back to 0x30. */
    assert_int_equal(list.gaps, 1);
    /* One more than was counted. */
    list = clean(records, reads, 1, 1, 2, BRANCHTRACE_USER);
    assert_int_equal(list.lost, -1);
    assert_false(list_complete(&list));
    reads[0].missing = 4;
    list = clean(records, reads, 1, 2, 2, BRANCHTRACE_USER);
    assert_int_equal(list.missing, 4);
    assert_false(list_complete(&list));
}

static void the_way_back_from_a_pmi_is_taken_out(void **state)
{
    /* The PMI comes at a function that the way back calls, too: only its IRET ends it. */
    struct branchtrace_record records[] = {
        {KERNEL(0x10), KERNEL(0x100), 1},
        {KERNEL(0x900), KERNEL(0x100), 1}, /* called by the way back */
        {KERNEL(0x110), KERNEL(0x905), 1},
        {KERNEL(0x990), KERNEL(0x100), 1 | BRANCHTRACE_IRET},
        {KERNEL(0x110), KERNEL(0x15), 1},
    };
    struct branchtrace_readout reads[] = {
        {.ip = KERNEL(0x100), .first = 0, .count = 1},
        {.first = 1, .count = 4, .why = BRANCHTRACE_BY_SWITCH},
    };
    struct list list = clean(records, reads, 2, 5, 4,
                             BRANCHTRACE_USER | BRANCHTRACE_KERNEL | BRANCHTRACE_FAR);

    (void)state;
    assert_int_equal(list.own, 3);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.records[1].from, KERNEL(0x110));
    assert_true(list_complete(&list));
}

static void the_system_calls_of_the_bounds_are_taken_out(void **state)
{
    struct branchtrace_record records[] = {
        {KERNEL(0x10), KERNEL(0x100), 1},
        {KERNEL(0x110), BEGIN, 1},
        {0x1010, 0x1800, 1},
        {0x1810, 0x1ff0, 1},
        {END, KERNEL(0), 1},
        {KERNEL(4), KERNEL(0x10), 1},
    };
    struct branchtrace_readout reads[] = {{.first = 0, .count = 6, .why = BRANCHTRACE_BY_STOP}};
    struct list list = clean(records, reads, 1, 6, 4,
                             BRANCHTRACE_USER | BRANCHTRACE_KERNEL | BRANCHTRACE_FAR);

    (void)state;
    assert_int_equal(list.outside, 4);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.records[0].from, 0x1010);
    assert_true(list_complete(&list));
}

static void an_edge_has_its_place_and_its_class(void **state)
{
    static struct coverage coverage;
    static uint8_t map[MAP_SIZE];
    static struct branchtrace_record records[MANY];
    struct list list = {.records = records, .count = 3};
    unsigned used = 0;

    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        records[i] = (struct branchtrace_record){0x10, 0x40, 0};
    assert_true(coverage_add(&coverage, &list));
    assert_false(coverage_add(&coverage, &list));
    list.count = 4; /* another class */
    assert_true(coverage_add(&coverage, &list));
    list.count = 7; /* the same one */
    assert_false(coverage_add(&coverage, &list));
    records[0].to = 0x41;
    assert_true(coverage_add(&coverage, &list));
    list.count = MANY;
    map_edges(&list, map);
    for (unsigned i = 0; i < MAP_SIZE; i++) {
        used += map[i] != 0;
        assert_true(map[i] == 0 || map[i] == 1 || map[i] == UINT8_MAX);
    }
    assert_int_equal(used, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_list_is_complete),
        cmocka_unit_test(a_switch_is_no_gap),
        cmocka_unit_test(what_is_missing_is_found),
        cmocka_unit_test(the_way_back_from_a_pmi_is_taken_out),
        cmocka_unit_test(the_system_calls_of_the_bounds_are_taken_out),
        cmocka_unit_test(an_edge_has_its_place_and_its_class),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
