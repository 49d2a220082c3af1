/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The debug store: the save area that IA32_DS_AREA points to, with the buffers of PEBS and BTS. All
 * of it is reached by linear address, through a small interface, so that this knows no Bochs. SDM
 * Vol. 3, "BTS and DS Save Area"; 64-bit fields in Linux's order (asm/intel_ds.h).
 */
#pragma once

#include <cstdint>
#include <vector>

/* Memory as the processor's supervisor accesses see it at this moment. An access that faults does
 * not come back: the exception is delivered, and what was under way is left as it is. */
class DsMemory {
public:
    virtual ~DsMemory() = default;
    virtual uint64_t read(uint64_t linear) = 0;
    virtual void write(uint64_t linear, uint64_t value) = 0;
};

/* Offsets in the save area: four fields of each buffer, in this order, then the reset values. */
constexpr uint64_t DS_BTS = 0;
constexpr uint64_t DS_PEBS = 32;
constexpr uint64_t DS_PEBS_RESET = 64;
constexpr uint64_t DS_FIELD = 8;

enum DsResult {
    DS_FULL, /* no room below the absolute maximum: nothing was written */
    DS_STORED,
    DS_THRESHOLD /* stored, and the index has reached the interrupt threshold */
};

/* Stores a record after the last one of the buffer `which` (DS_BTS, DS_PEBS) of the save area at
 * `area`, then moves the index: a fault on the way leaves the index where it was. A circular buffer
 * that is full begins anew at its base. */
DsResult ds_append(DsMemory &memory, uint64_t area, uint64_t which,
                   const std::vector<uint64_t> &record, bool circular);
