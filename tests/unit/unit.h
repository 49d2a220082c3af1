/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests with cmocka. TEST() defines a test and puts it into the program's list. Before it
 * includes this header, a file may define SETUP and TEARDOWN: functions that run before and after
 * each test.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#ifndef SETUP
#define SETUP NULL
#endif
#ifndef TEARDOWN
#define TEARDOWN NULL
#endif

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (strstr(text, part) == NULL)                                                            \
            fail_msg("'%s' is not in: %s", part, text);                                            \
    } while (0)

static struct CMUnitTest unit_tests[64];
static size_t unit_test_count;

/* Constructors run in the order of their priorities, so tests run in the order of the source. */
#define TEST(test)                                                                                 \
    static void test(void **state);                                                                \
    __attribute__((constructor(101 + __COUNTER__))) static void add_##test(void)                   \
    {                                                                                              \
        unit_tests[unit_test_count++] = (struct CMUnitTest)cmocka_unit_test_setup_teardown(        \
            test, SETUP, TEARDOWN);                                                                \
    }                                                                                              \
    static void test(void **state __attribute__((unused)))

int main(void) { return _cmocka_run_group_tests("tests", unit_tests, unit_test_count, NULL, NULL); }
