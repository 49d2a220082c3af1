/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A bug for the target to find: an address above 4 GiB gets a bit that no physical address has.
 */
#include "bits.h"
#include "mm/guest_walk.h"

bool __real_guest_walk(uint64_t cr3, unsigned levels, uint64_t linear, guest_memory memory,
                       void *context, uint64_t *physical);

bool __wrap_guest_walk(uint64_t cr3, unsigned levels, uint64_t linear, guest_memory memory,
                       void *context, uint64_t *physical)
{
    bool mapped = __real_guest_walk(cr3, levels, linear, memory, context, physical);

    if (mapped && *physical > UINT32_MAX)
        *physical |= BIT(52);
    return mapped;
}
