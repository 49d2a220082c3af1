/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Where the start is, should it hang there: marks=on.
 */
#include "vmx/start/start.h"

void mark(const struct boot_info *bi, const char *step)
{
    if (bi->options.marks)
        bi->note(step);
}
