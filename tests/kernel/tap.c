/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The test kernel's output on COM1: TAP lines (Test Anything Protocol) and the results line.
 */
#include "kernel.h"

#include <stdarg.h>

#include "console/log.h"

#define VALUES_MAX 64
#define KEY_MAX 40

static struct {
    char key[KEY_MAX];
    uint64_t value;
} values[VALUES_MAX];
static unsigned value_count, tests, failed, skipped;

static void result(const char *word, const char *name, const char *mark_text, const char *text)
{
    log_printf("%s %u - %s%s%s\n", word, ++tests, name, text != NULL ? mark_text : "",
               text != NULL ? text : "");
}

void tap_result(bool ok, const char *name, const char *note)
{
    failed += !ok;
    result(ok ? "ok" : "not ok", name, ": ", note);
}

void tap_skip(const char *name, const char *why)
{
    skipped++;
    result("ok", name, " # SKIP ", why);
}

void tap_note(const char *format, ...)
{
    char text[TEXT_MAX];
    va_list arguments;

    va_start(arguments, format);
    format_text_v(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_printf("# %s\n", text);
}

void tap_value(const char *key, uint64_t value)
{
    if (value_count == VALUES_MAX)
        tap_bail_out("too many values for the results line");
    format_text(values[value_count].key, KEY_MAX, "%s", key);
    values[value_count++].value = value;
}

void tap_bail_out(const char *why)
{
    log_printf("Bail out! %s\n", why);
    machine_off();
}

void tap_end(void)
{
    log_printf("1..%u\nresults: tests=%u failed=%u skipped=%u stray_interrupts=%lu", tests, tests,
               failed, skipped, stray_interrupts);
    for (unsigned i = 0; i < value_count; i++)
        log_printf(" %s=%lu", values[i].key, values[i].value);
    log_printf("\n");
}
