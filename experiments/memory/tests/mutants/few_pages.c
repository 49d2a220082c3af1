/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor whose pages for root mode's view are too few where page tables have none of 1 GiB,
 * and the EPT has: the trace must be seen to be left out.
 */
#include "experiments/memory/hypervisor/ept_copy.h"

bool __real_ept_copy_to_host(uint64_t root, struct ept_copy *c, uint64_t host_root);
bool __wrap_ept_copy_to_host(uint64_t root, struct ept_copy *c, uint64_t host_root);

bool __wrap_ept_copy_to_host(uint64_t root, struct ept_copy *c, uint64_t host_root)
{
    if (!c->page_1g)
        c->end = c->next;
    return __real_ept_copy_to_host(root, c, host_root);
}
