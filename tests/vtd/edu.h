/* SPDX-License-Identifier: BSD-2-Clause
 *
 * QEMU's teaching device "edu" as a thing that does DMA. (QEMU, docs/specs/edu.)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Finds it and lets it be bus master. False: there is none. */
bool edu_find(void);
/* Its PCI requester id. */
uint16_t edu_requester(void);
/* Each moves `bytes` (below 4096) by DMA between memory and the device's own buffer, and gives
 * false when the device does not come to an end. That it does says nothing about whether the
 * memory was reached. */
bool edu_read(uint64_t memory, uint32_t bytes);
bool edu_write(uint64_t memory, uint32_t bytes);
