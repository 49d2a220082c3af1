/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that maps its own memory for the guest: the sweep over its pages must be seen to
 * fail.
 */
#include "mm/mm.h"

uint64_t __real_ept_build(const struct ept_request *q);

uint64_t __wrap_ept_build(const struct ept_request *q)
{
    struct ept_request all = *q;

    all.hidden_count = 0;
    return __real_ept_build(&all);
}
