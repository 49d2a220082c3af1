/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Takes the place of mm/mmio.h: ../instructions.h.
 */
#pragma once

#include <stdint.h>

uint32_t mmio_read_32(uint64_t address);
uint64_t mmio_read_64(uint64_t address);
void mmio_write_32(uint64_t address, uint32_t value);
void mmio_write_64(uint64_t address, uint64_t value);
