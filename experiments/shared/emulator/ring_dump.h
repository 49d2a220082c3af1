/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rings of a flow or memory trace (trace_ring.h), found in the guest's memory
 * at the end of a run: the knob `trace_rings`. Knows no Bochs.
 */
#pragma once

#include "part.h"

/* As trace_ring.h has them; the unit tests compare. */
constexpr uint64_t RING_DUMP_MAGIC = 0x6563617274554d50u;
constexpr uint32_t RING_DUMP_VERSION = 1;
constexpr uint64_t RING_DUMP_PAGE = 4096;

/* Writes each ring in memory to the file, page by page: its header and then all records
 * that it has room for, one ring after the other. Pages that are not there are zero. Gives the
 * number of rings; -1: the file cannot be written. */
int ring_dump(const std::string &path, const MachineMemory &memory);
