// SPDX-License-Identifier: BSD-2-Clause
#include "pt_output.h"

#include "msr_index.h"

namespace {

// Section 2.6.2, "ToPA Table Entry Format".
constexpr uint64_t TOPA_END = bit(0);
constexpr uint64_t TOPA_INT = bit(2);
constexpr uint64_t TOPA_STOP = bit(4);
constexpr unsigned TOPA_SIZE_SHIFT = 6;
constexpr uint64_t TOPA_SIZE = 0xf;
constexpr uint64_t TOPA_RESERVED = bit(1) | bit(3) | bit(5) | bit(10) | bit(11);
constexpr uint64_t TOPA_ADDRESS = ~uint64_t{0xfff};
constexpr unsigned PAGE_BITS = 12;

// MaskOrTableOffset has bits 27:3 of the offset into the table, from bit 7 on.
constexpr unsigned TABLE_OFFSET_SHIFT = 7;
constexpr uint32_t TABLE_STEP = 1u << TABLE_OFFSET_SHIFT;
constexpr unsigned ENTRY_BYTES_SHIFT = 3;
constexpr uint32_t LOWER_MASK = 0x7f;

uint64_t size_of(uint64_t entry)
{
    return uint64_t{1} << (PAGE_BITS + (entry >> TOPA_SIZE_SHIFT & TOPA_SIZE));
}

uint64_t entry_at(const PtOutputPointers &out, uint32_t table_offset)
{
    return out.base + (uint64_t{table_offset >> TABLE_OFFSET_SHIFT} << ENTRY_BYTES_SHIFT);
}

}  // namespace

bool PtOutput::topa() const { return msrs_.ctl() & RTIT_CTL_TOPA; }

uint64_t PtOutput::address() const
{
    const PtOutputPointers &out = msrs_.output();

    return topa() ? (entry_ & TOPA_ADDRESS) + out.offset
                  : (out.base & ~uint64_t{out.mask}) + (out.offset & out.mask);
}

// Section 2.6.2, "ToPA Errors": reserved bits, and an address that is not aligned to its size.
bool PtOutput::entry_good(uint64_t entry) const
{
    uint64_t address = entry & TOPA_ADDRESS;

    if ((entry & TOPA_RESERVED) || address >> address_bits_ != 0)
        return false;
    return entry & TOPA_END ? (entry & (TOPA_INT | TOPA_STOP)) == 0
                            : (address & (size_of(entry) - 1)) == 0;
}

PtOutputResult PtOutput::load()
{
    PtOutputPointers &out = msrs_.output();
    // A table's first entry is none with END.
    bool first = out.mask >> TABLE_OFFSET_SHIFT == 0;

    if (out.base & ~TOPA_ADDRESS)
        return PT_OUTPUT_ERROR;
    entry_ = memory_.read_entry(entry_at(out, out.mask));
    if (!entry_good(entry_) || (first && (entry_ & TOPA_END)))
        return PT_OUTPUT_ERROR;
    if (!(entry_ & TOPA_END))
        return PT_OUTPUT_GOES_ON;
    out.base = entry_ & TOPA_ADDRESS;
    out.mask = LOWER_MASK;
    out.offset = 0;
    entry_ = memory_.read_entry(out.base);
    return entry_good(entry_) && !(entry_ & TOPA_END) ? PT_OUTPUT_GOES_ON : PT_OUTPUT_ERROR;
}

PtOutputResult PtOutput::begin()
{
    const PtOutputPointers &out = msrs_.output();

    last_page_ = ~uint64_t{0};
    if (!topa()) {
        // Section 2.6.1, "Single-Range Output Errors".
        bool contiguous = (out.mask & (out.mask + 1)) == 0;
        return contiguous && !(out.base & out.mask) && out.offset <= out.mask ? PT_OUTPUT_GOES_ON
                                                                              : PT_OUTPUT_ERROR;
    }
    if (load() == PT_OUTPUT_ERROR || out.offset >= size_of(entry_))
        return PT_OUTPUT_ERROR;
    return PT_OUTPUT_GOES_ON;
}

// The region is full. Section 2.6.2: STOP before INT, and the pointers stay at its end.
PtOutputResult PtOutput::next_region()
{
    PtOutputPointers &out = msrs_.output();
    bool stop = entry_ & TOPA_STOP;

    if (entry_ & TOPA_INT)
        memory_.interrupt();
    if (stop)
        return PT_OUTPUT_STOPPED;
    // Past the largest table it begins anew.
    out.mask = (out.mask + TABLE_STEP) | LOWER_MASK;
    out.offset = 0;
    return load();
}

PtOutputResult PtOutput::put(uint8_t byte)
{
    PtOutputPointers &out = msrs_.output();

    memory_.write(address(), byte);
    out.offset++;
    if (topa())
        return out.offset == size_of(entry_) ? next_region() : PT_OUTPUT_GOES_ON;
    out.offset &= out.mask;
    return PT_OUTPUT_GOES_ON;
}

bool PtOutput::moved()
{
    bool moved = page() != last_page_;

    last_page_ = page();
    return moved;
}

bool PtOutput::next_page(uint64_t *next)
{
    const PtOutputPointers &out = msrs_.output();
    uint64_t in_page = (uint64_t{out.offset} & ~PAGE_MASK) + PAGE_MASK + 1;

    if (!topa()) {
        *next = (out.base & ~uint64_t{out.mask}) + (in_page & out.mask & ~PAGE_MASK);
        return *next != page();
    }
    *next = (entry_ & TOPA_ADDRESS) + in_page;
    if (in_page < size_of(entry_))
        return true;
    if (entry_ & TOPA_STOP)
        return false;
    uint64_t entry = memory_.read_entry(entry_at(out, out.mask + TABLE_STEP));
    if (entry_good(entry) && (entry & TOPA_END))
        entry = memory_.read_entry(entry & TOPA_ADDRESS);
    // A bad one is an error when it is reached.
    *next = entry & TOPA_ADDRESS;
    return entry_good(entry) && !(entry & TOPA_END);
}
