/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rings of a flow or memory trace (trace_ring.h of the project), found in the guest's memory
 * at the end of a run: the knob `trace_rings`. Knows no Bochs.
 */
#pragma once

#include <cstdint>
#include <functional>
#include <string>

/* As trace_ring.h has them; the unit tests compare. */
constexpr uint64_t RING_DUMP_MAGIC = 0x6563617274554d50u;
constexpr uint32_t RING_DUMP_VERSION = 1;
constexpr uint64_t RING_DUMP_PAGE = 4096;

/* The host's address of a page of the guest's memory; null: none is there. */
using PageOf = std::function<const uint8_t *(uint64_t address)>;

/* Writes each ring in `bytes` of memory to the file, page by page: its header and then all records
 * that it has room for, one ring after the other. Pages that are not there are zero. Gives the
 * number of rings; -1: the file cannot be written. */
int ring_dump(const std::string &path, uint64_t bytes, const PageOf &page);
