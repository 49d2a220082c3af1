/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A bug for the target to find: an address above 4 GiB gets a bit that no physical address has.
 */
#include "bits.h"
#include "mm/guest_walk.h"

bool __real_guest_walk(const struct guest_paging *paging, uint64_t linear, guest_entry_read read,
                       void *context, uint64_t *physical);
bool __wrap_guest_walk(const struct guest_paging *paging, uint64_t linear, guest_entry_read read,
                       void *context, uint64_t *physical);

bool __wrap_guest_walk(const struct guest_paging *paging, uint64_t linear, guest_entry_read read,
                       void *context, uint64_t *physical)
{
    bool mapped = __real_guest_walk(paging, linear, read, context, physical);

    if (mapped && *physical > UINT32_MAX)
        *physical |= BIT(52);
    return mapped;
}
