// SPDX-License-Identifier: BSD-2-Clause
//
// The branch predictor and the cache of the model: direct-mapped tables, so that the same run gives
// the same counts.
#include "microarch.h"

bool BranchPredictor::miss(uint64_t from, uint64_t to)
{
    // Low address bits tell neighbours apart, higher ones spread the program's parts.
    unsigned slot = static_cast<unsigned>(from ^ from >> 12) % ENTRIES;
    bool wrong = from_[slot] != from || to_[slot] != to;

    from_[slot] = from;
    to_[slot] = to;
    return wrong;
}

CacheOutcome Cache::access(uint64_t paddr)
{
    // 0 marks an empty slot, so tags are one more than the line's number.
    uint64_t tag = (paddr >> LINE_SHIFT) + 1;

    if (near_[tag % NEAR_LINES] == tag)
        return CACHE_NEAR;
    near_[tag % NEAR_LINES] = tag;
    if (llc_[tag % LLC_LINES] == tag)
        return CACHE_LLC_HIT;
    llc_[tag % LLC_LINES] = tag;
    return CACHE_LLC_MISS;
}
