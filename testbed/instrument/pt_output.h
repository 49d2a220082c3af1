/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Where the bytes of a trace go: a single range that is written in a circle, or the regions of
 * tables of physical addresses (ToPA) with STOP, INT and END. Moves the pointers in the registers
 * as it writes. Knows no Bochs. SDM Vol. 3, "Intel Processor Trace", "Trace Output" (section 2.6).
 */
#pragma once

#include <cstdint>

#include "pt_msrs.h"

/* Memory as the trace's output reaches it: by physical addresses, or by those of the guest. */
class PtMemory {
public:
    virtual ~PtMemory() = default;
    virtual uint64_t read_entry(uint64_t address) = 0;
    virtual void write(uint64_t address, uint8_t byte) = 0;
    /* A region whose entry has INT is full. */
    virtual void interrupt() = 0;
};

enum PtOutputResult {
    PT_OUTPUT_GOES_ON,
    PT_OUTPUT_STOPPED, /* a region whose entry has STOP is full */
    PT_OUTPUT_ERROR    /* an operational error: section 3.9 */
};

class PtOutput {
public:
    PtOutput(PtMsrs &msrs, PtMemory &memory, const PtShape &shape)
        : msrs_(msrs), memory_(memory), address_bits_(shape.address_bits)
    {
    }

    /* TraceEn is set: what the registers say is looked at. */
    PtOutputResult begin();
    /* The next byte. After anything but PT_OUTPUT_GOES_ON there is none any more. */
    PtOutputResult put(uint8_t byte);

    /* The page that the next byte goes to has changed since this was last asked. */
    bool moved();
    /* The first byte of that page, and whether there is a page after it that is known: the next one
     * of the region, or the first one of the next region. May read entries. */
    uint64_t page() const { return address() & ~PAGE_MASK; }
    bool next_page(uint64_t *address);

private:
    static constexpr uint64_t PAGE_MASK = 0xfff;

    bool topa() const;
    uint64_t address() const;
    /* Takes over the entry of the table that the registers point to. */
    PtOutputResult load();
    bool entry_good(uint64_t entry) const;
    PtOutputResult next_region();

    PtMsrs &msrs_;
    PtMemory &memory_;
    unsigned address_bits_;
    uint64_t entry_ = 0;
    uint64_t last_page_ = ~uint64_t{0};
};
