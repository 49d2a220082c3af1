/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Registers of devices in memory. One access of that width each, in the order of the program.
 */
#pragma once

#include <stdint.h>

static inline uint32_t mmio_read_32(uint64_t address)
{
    return *(const volatile uint32_t *)(uintptr_t)address;
}

static inline uint64_t mmio_read_64(uint64_t address)
{
    return *(const volatile uint64_t *)(uintptr_t)address;
}

static inline void mmio_write_32(uint64_t address, uint32_t value)
{
    *(volatile uint32_t *)(uintptr_t)address = value;
}

static inline void mmio_write_64(uint64_t address, uint64_t value)
{
    *(volatile uint64_t *)(uintptr_t)address = value;
}
