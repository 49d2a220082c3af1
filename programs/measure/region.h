/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The marker by which the emulator's ledger knows where a region begins and ends: 64-bit code at
 * any privilege, natively and in a guest. On hardware it does nothing (testbed/README.md,
 * "Ledger").
 */
#pragma once

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
#endif

static inline void region_mark(uint32_t id, bool begin)
{
    __asm__ volatile("xchg %%bx, %%bx" : : "a"(id), "c"((uint32_t)begin) : "memory");
}
