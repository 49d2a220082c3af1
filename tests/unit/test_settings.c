/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What holds on a machine, from what was asked for and what VMX offers. The bit is the SDM's number,
 * not the constant of include/vmx.h.
 * SDM Vol. 3, Appendix "VMX Capability Reporting Facility".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "console/log.h"
#include "vmx/settings.h"

#define WAIT_FOR_SIPI (UINT64_C(1) << 8) /* in IA32_VMX_MISC */

static char said[256];

static void catch(const char *text, size_t length)
{
    strncat(said, text, length);
}

/* Whether the local APIC is trapped, and whether a line says that it was not asked for. */
static void expect(bool asked, uint32_t processors, uint64_t misc, bool trapped, bool line)
{
    const struct options options = {.apic_trap = asked};

    said[0] = '\0';
    struct settings s = settings_derive(&options, processors, misc);
    assert_int_equal(s.apic_trap, trapped);
    assert_int_equal(strstr(said, "apic=trap is on") != NULL, line);
    assert_true(line || said[0] == '\0');
}

static void test_as_asked(void **state)
{
    (void)state;
    for (uint32_t processors = 0; processors <= 8; processors++) {
        expect(false, processors, WAIT_FOR_SIPI, false, false);
        expect(true, processors, WAIT_FOR_SIPI, true, false);
    }
}

static void test_without_wait_for_sipi(void **state)
{
    (void)state;
    /* No MADT, or one processor: nobody waits. */
    expect(false, 0, ~WAIT_FOR_SIPI, false, false);
    expect(false, 1, ~WAIT_FOR_SIPI, false, false);
    expect(false, 2, ~WAIT_FOR_SIPI, true, true);
    expect(false, 512, 0, true, true);
    expect(true, 2, 0, true, false);
}

static void test_processors(void **state)
{
    (void)state;
    static const struct {
        uint32_t asked, listed, most;
    } cases[] = {{0, 0, 1}, {0, 1, 1}, {0, 4, 4}, {0, 512, 512}, {0, 4000, 512}, {1, 0, 1},
                 {1, 4, 1}, {4, 4, 4}, {5, 4, 4}, {3, 4000, 3}};

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct options options = {.processors = cases[i].asked};
        assert_int_equal(settings_derive(&options, cases[i].listed, WAIT_FOR_SIPI).processors,
                         cases[i].most);
    }
    /* One alone waits for no SIPI. */
    const struct options one = {.processors = 1};
    assert_false(settings_derive(&one, 4, 0).apic_trap);
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
        assert_int_equal(settings_derive(&options, 1, WAIT_FOR_SIPI).monitor_hidden,
                         cases[i].hidden);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_asked),
        cmocka_unit_test(test_without_wait_for_sipi),
        cmocka_unit_test(test_processors),
        cmocka_unit_test(test_monitor_hidden),
    };
    log_add_sink(catch);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
