/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A bug for the target to find: the parser looks at the byte after a text that ends in "=".
 */
#include "options.h"

bool __real_options_parse(struct options *o, const char *text, uint64_t length, const char *source,
                          struct refusal *r);

bool __wrap_options_parse(struct options *o, const char *text, uint64_t length, const char *source,
                          struct refusal *r)
{
    bool looks_on = length > 0 && text[length - 1] == '=';

    return __real_options_parse(o, text, length, source, r) && !(looks_on && text[length] == '=');
}
