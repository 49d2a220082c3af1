/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the flow trace asks of a start: its option, and what trace=flow needs of a processor. Bits
 * are given by the SDM's numbers and not by the constants of include/vmx.h.
 * SDM Vol. 3, Appendix "VMX Capability Reporting Facility".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "experiment.h"
#include "experiments/flow/hypervisor/level.h"
#include "lib/refusal.h"
#include "vmx/capability.h"
#include "vmx/settings.h"

extern const struct experiment flow_experiment;

/* No processor is set up here. */
void trace_setup(struct cpu *cpu, const struct vmx_capability *c) { fail_msg("%p %p", cpu, c); }
int64_t trace_call(struct cpu *cpu)
{
    fail_msg("%p", cpu);
    return 0;
}
void *page_alloc(uint64_t count)
{
    fail_msg("%lu", count);
    return NULL;
}
void vmcs_access_failed(uint32_t field, bool write)
{
    fail_msg("%u %d", field, write);
    abort();
}

static bool parse(const char *text, struct refusal *r)
{
    struct options o;

    options_default(&o);
    return options_parse(&o, text, strlen(text), "test.cfg", r);
}

static void test_option(void **state)
{
    static const struct {
        const char *text;
        uint32_t level;
        bool hidden;
    } cases[] = {{"", TRACE_OFF, false},
                 {"trace=flow", TRACE_FLOW, true},
                 {"trace=exits", TRACE_EXITS, false},
                 {"trace=flow trace=off", TRACE_OFF, false}};
    struct options o = {.tick_ms = 0};
    struct refusal r;

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(parse(cases[i].text, &r));
        assert_int_equal(ring_options.exits, cases[i].level);
        assert_int_equal(settings_derive(&o, 1).monitor_hidden, cases[i].hidden);
    }
    assert_false(parse("trace=all", &r));
    assert_non_null(strstr(r.line, "option trace: found 'all', wanted off, exits or flow"));
}

/* trace=flow: its controls are asked for then alone; so are four CR3-target values and the HLT
 * state (IA32_VMX_MISC bits 24:16 and 6). */
static void test_possible(void **state)
{
    static const struct {
        enum control_set set;
        unsigned bit;
        const char *name;
    } wanted[] = {
        {SET_PIN, 0, "\"external-interrupt exiting\""},
        {SET_PRIMARY, 2, "\"interrupt-window exiting\""},
        {SET_PRIMARY, 7, "\"HLT exiting\""},
        {SET_PRIMARY, 15, "\"CR3-load exiting\""},
    };
    static const struct {
        uint64_t misc;
        bool enough;
    } misc[] = {{4 << 16 | 1 << 6, true},
                {256 << 16 | 1 << 6, true},
                {3 << 16 | 1 << 6, false},
                {4 << 16, false},
                {0, false}};
    struct vmx_capability c = {.misc = misc[0].misc};
    struct refusal r;

    (void)state;
    for (unsigned i = 0; i <= LENGTH_OF(wanted); i++) {
        for (unsigned set = 0; set < SET_COUNT; set++)
            c.allowed[set] = (uint64_t)UINT32_MAX << 32;
        if (i < LENGTH_OF(wanted))
            c.allowed[wanted[i].set] &= ~(UINT64_C(1) << (32 + wanted[i].bit));
        ring_options.exits = TRACE_EXITS;
        assert_true(flow_experiment.possible(&c, &r));
        ring_options.exits = TRACE_FLOW;
        assert_int_equal(flow_experiment.possible(&c, &r), i == LENGTH_OF(wanted));
        assert_true(i == LENGTH_OF(wanted) || strstr(r.line, wanted[i].name) != NULL);
    }
    for (unsigned i = 0; i < LENGTH_OF(misc); i++) {
        c.misc = misc[i].misc;
        assert_int_equal(flow_experiment.possible(&c, &r), misc[i].enough);
        assert_true(misc[i].enough || strstr(r.line, "use trace=exits") != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_option),
        cmocka_unit_test(test_possible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
