/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Walks the guest's page tables in IA-32e mode, from a linear address to the guest-physical
 * address. Pure: the caller provides the memory. SDM Vol. 3, "4-Level Paging and 5-Level Paging".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Returns a pointer to the byte at a guest-physical address. The pointer is valid up to the end of
 * the byte's page, and until the next call. Returns NULL if the guest has no memory at the
 * address. */
typedef const void *(*guest_memory)(void *context, uint64_t address);

/* Translates `linear`; `levels` is 4 or 5 (CR4.LA57). Call this function only for an address that
 * the processor itself has just used, because the function checks neither rights nor reserved bits,
 * except PS. It sets no accessed or dirty bit. Returns false if the address is not mapped or not
 * canonical, if PS is set at a level that has no pages, or if an entry cannot be read. */
bool guest_walk(uint64_t cr3, unsigned levels, uint64_t linear, guest_memory memory, void *context,
                uint64_t *physical);
