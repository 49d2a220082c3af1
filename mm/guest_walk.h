/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest's page tables, walked by software: linear address to guest-physical address. Pure: the
 * caller reads the entries. SDM Vol. 3, "Paging".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The registers that say how the guest translates. */
struct guest_paging {
    uint64_t cr0, cr3, cr4, efer;
};

/* Reads an entry of `bytes` (4 or 8, naturally aligned) at a guest-physical address. False: there
 * is no memory of the guest. */
typedef bool (*guest_entry_read)(void *context, uint64_t address, unsigned bytes, uint64_t *value);

/* Translates, in every paging mode. Rights are not checked and no accessed or dirty bit is set: it
 * is meant for an address that the processor itself has just used. False: not mapped, not
 * canonical, or an entry that the processor would refuse or that cannot be read. */
bool guest_walk(const struct guest_paging *paging, uint64_t linear, guest_entry_read read,
                void *context, uint64_t *physical);
