/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What holds on a machine, from what was asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "vmx/settings.h"

static void test_processors(void **state)
{
    (void)state;
    static const struct {
        uint32_t asked, listed, most;
    } cases[] = {{0, 0, 1}, {0, 1, 1}, {0, 4, 4}, {0, 512, 512}, {0, 4000, 512},
                 {1, 0, 1}, {1, 4, 1}, {4, 4, 4}, {5, 4, 4},     {3, 4000, 3}};

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct options options = {.processors = cases[i].asked};
        assert_int_equal(settings_derive(&options, cases[i].listed).processors, cases[i].most);
    }
}

static void test_monitor_hidden(void **state)
{
    (void)state;
    static const struct {
        uint32_t tick_ms;
        bool hidden;
    } cases[] = {{0, false}, {1, true}};

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct options options = {.tick_ms = cases[i].tick_ms};
        assert_int_equal(settings_derive(&options, 1).monitor_hidden, cases[i].hidden);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processors),
        cmocka_unit_test(test_monitor_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
