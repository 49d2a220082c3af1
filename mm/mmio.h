/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Accesses device registers in memory. Each function makes one access of its width. The accesses
 * stay in the order of the program.
 */
#pragma once

#include <stdint.h>

#define DEFINE_MMIO(bits)                                                                          \
    static inline uint##bits##_t mmio_read_##bits(uint64_t address)                                \
    {                                                                                              \
        return *(const volatile uint##bits##_t *)(uintptr_t)address;                               \
    }                                                                                              \
    static inline void mmio_write_##bits(uint64_t address, uint##bits##_t value)                   \
    {                                                                                              \
        *(volatile uint##bits##_t *)(uintptr_t)address = value;                                    \
    }
DEFINE_MMIO(32)
DEFINE_MMIO(64)
#undef DEFINE_MMIO
