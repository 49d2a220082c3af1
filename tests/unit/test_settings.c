/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What holds on a machine, from what was asked for.
 */
#include "unit.h"

#include "vmx/settings.h"

TEST(test_processors)
{
    static const struct {
        uint32_t asked, listed, most;
    } cases[] = {{0, 0, 1}, {0, 1, 1}, {0, 4, 4}, {0, 512, 512}, {0, 4000, 512},
                 {1, 0, 1}, {1, 4, 1}, {4, 4, 4}, {5, 4, 4},     {3, 4000, 3}};

    for (unsigned i = 0; i < COUNT(cases); i++) {
        const struct options options = {.processors = cases[i].asked};
        assert_int_equal(settings_derive(&options, cases[i].listed).processors, cases[i].most);
    }
}

TEST(test_monitor_hidden)
{
    static const struct {
        uint32_t tick_ms;
        bool hidden;
    } cases[] = {{0, false}, {1, true}};

    for (unsigned i = 0; i < COUNT(cases); i++) {
        const struct options options = {.tick_ms = cases[i].tick_ms};
        assert_int_equal(settings_derive(&options, 1).monitor_hidden, cases[i].hidden);
    }
}
