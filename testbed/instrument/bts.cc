// SPDX-License-Identifier: BSD-2-Clause
#include "bts.h"

#include "msr_index.h"

namespace {

// The third word of a record.
constexpr uint64_t BTS_PREDICTED = bit(4);

}  // namespace

bool bts_on(uint64_t debugctl)
{
    constexpr uint64_t both = DEBUGCTL_TR | DEBUGCTL_BTS;

    return (debugctl & both) == both;
}

void Bts::branch(uint64_t debugctl, uint64_t from, uint64_t to, bool user, bool mispredicted)
{
    if (debugctl & (user ? DEBUGCTL_BTS_OFF_USR : DEBUGCTL_BTS_OFF_OS))
        return;
    branches_.push_back({from, to, mispredicted ? 0 : BTS_PREDICTED});
}

bool Bts::store(DsMemory &memory, uint64_t area, uint64_t debugctl)
{
    // An access that faults does not come back: what it was for is gone.
    std::vector<std::vector<uint64_t>> records;
    bool interrupts = debugctl & DEBUGCTL_BTINT;
    bool pmi = false;

    records.swap(branches_);
    for (const std::vector<uint64_t> &record : records)
        pmi |= ds_append(memory, area, DS_BTS, record, !interrupts) == DS_THRESHOLD;
    return pmi && interrupts;
}
