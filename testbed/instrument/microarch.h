/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The deterministic stand-ins for what Bochs has none of: a branch predictor and three levels of
 * cache. They make the events of misses follow the program's behaviour and repeat exactly; they
 * predict nothing about a real processor.
 */
#pragma once

#include <cstdint>

#include "branch.h"

/* Conditional branches: two bits for each of the branch's last four outcomes, so that short
 * patterns are learnt; one not seen before is taken for not taken. Returns: a stack. Other indirect
 * branches: what they did the last time. Direct and far branches are never mispredicted. */
class BranchPredictor {
public:
    /* The branch at `from` goes to `to` (any where it is not taken); true is a miss. */
    bool miss(BranchKind kind, uint64_t from, uint64_t to, bool taken);
    /* Indirect branch prediction barrier: SDM Vol. 4, IA32_PRED_CMD. */
    void barrier();

private:
    static constexpr unsigned ENTRIES = 4096;
    static constexpr unsigned STACK = 16;
    static constexpr unsigned HISTORIES = 16;

    struct Conditional {
        uint64_t from = 0;
        uint8_t history = 0;
        uint8_t states[HISTORIES] = {}; /* 0 and 1 say not taken, 2 and 3 taken */
    };
    static unsigned slot(uint64_t from);
    bool conditional_miss(uint64_t from, bool taken);
    bool target_miss(uint64_t from, uint64_t to);
    bool return_miss(uint64_t from, uint64_t to);
    void push(uint64_t from) { stack_[top_++ % STACK] = from; }

    Conditional conditionals_[ENTRIES];
    uint64_t from_[ENTRIES] = {};
    uint64_t to_[ENTRIES] = {};
    uint64_t stack_[STACK] = {}; /* addresses of the calls */
    uint64_t top_ = 0;           /* calls less returns, if that is not below 0 */
};

enum CacheOutcome { CACHE_L1, CACHE_NEAR, CACHE_LLC_HIT, CACHE_LLC_MISS };

/* 32 KiB with 8 ways, the one used longest ago replaced; then direct-mapped 1 MiB near the core and
 * 8 MiB shared; lines of 64 bytes. L1's and L2's sizes are Skylake-SP's. */
class Cache {
public:
    /* A load or a store: where the line was. It is in all levels afterwards. */
    CacheOutcome access(uint64_t paddr);
    /* The line leaves all levels. */
    void evict(uint64_t paddr);
    /* All lines do. */
    void clear();

    static constexpr unsigned LINE_BYTES = 64;

private:
    static constexpr unsigned L1_SETS = 64;
    static constexpr unsigned L1_WAYS = 8;
    static constexpr unsigned NEAR_LINES = 1u << 14;
    static constexpr unsigned LLC_LINES = 1u << 17;

    /* 0 marks an empty slot, so tags are one more than the line's number. */
    static uint64_t tag_of(uint64_t paddr) { return paddr / LINE_BYTES + 1; }
    bool l1_access(uint64_t tag);

    uint64_t l1_[L1_SETS][L1_WAYS] = {}; /* the one used last comes first */
    uint64_t near_[NEAR_LINES] = {};
    uint64_t llc_[LLC_LINES] = {};
};
