/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fills a refusal. Pure.
 */
#include "lib/refusal.h"

#include <stdarg.h>

#include "console/log.h"

bool refuse(struct refusal *r, enum refusal_kind kind, const char *format, ...)
{
    va_list arguments;

    r->kind = kind;
    va_start(arguments, format);
    format_text_v(r->line, sizeof(r->line), format, arguments);
    va_end(arguments);
    return false;
}
