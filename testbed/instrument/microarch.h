/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The deterministic stand-ins for what Bochs has none of: a branch predictor and two levels of
 * cache. They make the events "branch misses", "LLC references" and "LLC misses" follow the
 * program's behaviour and repeat exactly; they predict nothing about a real processor.
 */
#ifndef TB_MICROARCH_H
#define TB_MICROARCH_H

#include <cstdint>

/* Predicts what the branch did the last time, by a direct-mapped table. */
class BranchPredictor {
public:
    /* The branch at `from` goes to `to` (0 where it is not taken); true is a miss. */
    bool miss(uint64_t from, uint64_t to);

private:
    static constexpr unsigned ENTRIES = 4096;
    uint64_t from_[ENTRIES] = {};
    uint64_t to_[ENTRIES] = {};
};

enum CacheOutcome { CACHE_NEAR, CACHE_LLC_HIT, CACHE_LLC_MISS };

/* Direct-mapped: 1 MiB near the core (as Skylake-SP's L2) and 8 MiB shared, lines of 64 bytes. */
class Cache {
public:
    CacheOutcome access(uint64_t paddr);

private:
    static constexpr unsigned LINE_SHIFT = 6;
    static constexpr unsigned NEAR_LINES = 1u << 14;
    static constexpr unsigned LLC_LINES = 1u << 17;
    uint64_t near_[NEAR_LINES] = {};
    uint64_t llc_[LLC_LINES] = {};
};

#endif
