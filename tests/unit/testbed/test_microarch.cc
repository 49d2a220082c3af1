// SPDX-License-Identifier: BSD-2-Clause
//
// The stand-ins for a branch predictor and for caches, and the events that are made of them.
#include <memory>

#include "check.h"
#include "microarch.h"
#include "pmu_machine.h"

namespace {

struct Predictor {
    std::unique_ptr<BranchPredictor> of = std::make_unique<BranchPredictor>();

    // A loop's branch, taken `rounds` - 1 times, then not.
    unsigned loop(uint64_t from, unsigned rounds)
    {
        unsigned misses = 0;
        for (unsigned n = 1; n <= rounds; n++)
            misses += of->miss(BRANCH_CONDITIONAL, from, from - 10, n < rounds);
        return misses;
    }
};

TEST(a_loop_is_mispredicted_at_its_start_and_its_end)
{
    Predictor p;
    CHECK_EQUAL(p.loop(0x1000, 1000), 2u);
    CHECK_EQUAL(p.loop(0x1000, 1000), 1u);
}

TEST(a_branch_never_taken_is_never_mispredicted)
{
    Predictor p;
    for (unsigned n = 0; n < 100; n++)
        CHECK(!p.of->miss(BRANCH_CONDITIONAL, 0x1000, 0, false));
}

TEST(short_patterns_are_learnt_and_random_outcomes_are_not)
{
    Predictor p;
    unsigned misses = 0;
    for (unsigned n = 0; n < 1000; n++)
        misses += p.of->miss(BRANCH_CONDITIONAL, 0x1000, 0x2000, n % 2 == 0);
    CHECK(misses <= 5);
    misses = 0;
    for (unsigned n = 0; n < 1000; n++)
        misses += p.of->miss(BRANCH_CONDITIONAL, 0x3000, 0x2000, n % 4 == 0);
    CHECK(misses <= 10);
    misses = 0;
    uint32_t random = 1;
    for (unsigned n = 0; n < 10000; n++) {
        random = random * 1664525 + 1013904223;
        misses += p.of->miss(BRANCH_CONDITIONAL, 0x5000, 0x2000, random >> 31);
    }
    CHECK(misses > 4500 && misses < 5500);
}

TEST(direct_and_far_branches_are_never_mispredicted)
{
    Predictor p;
    CHECK(!p.of->miss(BRANCH_REL_JMP, 0x1000, 0x2000, true));
    CHECK(!p.of->miss(BRANCH_REL_CALL, 0x1100, 0x2000, true));
    CHECK(!p.of->miss(BRANCH_FAR, 0x1200, 0x2000, true));
}

TEST(indirect_branches_go_where_they_went)
{
    Predictor p;
    for (BranchKind kind : {BRANCH_IND_JMP, BRANCH_IND_CALL}) {
        uint64_t from = 0x1000 + kind;
        CHECK(p.of->miss(kind, from, 0x2000, true));
        CHECK(!p.of->miss(kind, from, 0x2000, true));
        CHECK(p.of->miss(kind, from, 0x3000, true));
    }
    CHECK(!p.of->miss(BRANCH_IND_JMP, 0x1000 + BRANCH_IND_JMP, 0x3000, true));
    p.of->barrier();
    CHECK(p.of->miss(BRANCH_IND_JMP, 0x1000 + BRANCH_IND_JMP, 0x3000, true));
}

TEST(returns_follow_their_calls)
{
    Predictor p;
    // One function, called from two places in turn, and one within.
    for (uint64_t call : {0x1000, 0x1100, 0x1000, 0x1100}) {
        CHECK(!p.of->miss(BRANCH_REL_CALL, call, 0x4000, true));
        CHECK(!p.of->miss(BRANCH_REL_CALL, 0x4010, 0x5000, true));
        // Reads its own address: no return belongs to this call.
        CHECK(!p.of->miss(BRANCH_REL_CALL, 0x5000, 0x5005, true));
        CHECK(!p.of->miss(BRANCH_RET, 0x5008, 0x4015, true));
        CHECK(!p.of->miss(BRANCH_RET, 0x4020, call + 5, true));
    }
    // A return to somewhere else, as a retpoline makes one.
    CHECK(!p.of->miss(BRANCH_REL_CALL, 0x1000, 0x1010, true));
    CHECK(p.of->miss(BRANCH_RET, 0x1014, 0x9000, true));
    // A chain deeper than the stack: what was pushed out is mispredicted.
    for (uint64_t n = 0; n < 20; n++)
        p.of->miss(BRANCH_REL_CALL, 0x10000 + n * 0x100, 0x4000, true);
    unsigned misses = 0;
    for (uint64_t n = 20; n-- > 0;)
        misses += p.of->miss(BRANCH_RET, 0x4000 + n, 0x10000 + n * 0x100 + 5, true);
    CHECK_EQUAL(misses, 4u);
}

TEST(cache_levels)
{
    auto cache = std::make_unique<Cache>();
    CHECK_EQUAL(cache->access(0x10000), CACHE_LLC_MISS);
    CHECK_EQUAL(cache->access(0x10020), CACHE_L1);
    // Eight more lines of its set in L1, of other slots near the core.
    for (uint64_t n = 1; n <= 8; n++)
        CHECK_EQUAL(cache->access(0x10000 + n * 0x1000), CACHE_LLC_MISS);
    CHECK_EQUAL(cache->access(0x10000), CACHE_NEAR);
    // The second of them was used longest ago, the third was not.
    CHECK_EQUAL(cache->access(0x13000), CACHE_L1);
    CHECK_EQUAL(cache->access(0x11000), CACHE_NEAR);
    // The same slot near the core, another one of the LLC: 1 MiB further.
    CHECK_EQUAL(cache->access(0x110000), CACHE_LLC_MISS);
    for (uint64_t n = 1; n <= 8; n++)
        cache->access(0x110000 + n * 0x1000);
    CHECK_EQUAL(cache->access(0x10000), CACHE_LLC_HIT);
}

TEST(an_evicted_line_misses_everywhere)
{
    auto cache = std::make_unique<Cache>();
    for (unsigned n = 0; n < 3; n++) {
        CHECK_EQUAL(cache->access(0x10000), CACHE_LLC_MISS);
        CHECK_EQUAL(cache->access(0x10000), CACHE_L1);
        cache->evict(0x1003f);
    }
    cache->access(0x10000);
    cache->evict(0x10040);
    CHECK_EQUAL(cache->access(0x10000), CACHE_L1);
    cache->clear();
    CHECK_EQUAL(cache->access(0x10000), CACHE_LLC_MISS);
}

constexpr uint64_t ALL_LOADS = 0x81d0, ALL_STORES = 0x82d0, L1D_REPLACEMENT = 0x151;
constexpr uint64_t LLC_REFERENCES = 0x4f2e, LLC_MISSES = 0x412e;
constexpr uint64_t OFFCORE_RESPONSE_0 = 0x1b7, OFFCORE_RESPONSE_1 = 0x1bb;
// Linux's LLC-loads, LLC-load-misses, LLC-stores, LLC-store-misses, node-loads, node-load-misses.
constexpr uint64_t LLC_LOADS = 0x3fc0010001, LLC_LOAD_MISSES = 0x3ffc020001;
constexpr uint64_t LLC_STORES = 0x3fc0010002, LLC_STORE_MISSES = 0x3ffc020002;
constexpr uint64_t NODE_LOADS = 0x1fc4000001, NODE_LOAD_MISSES = 0x1ff8000001;

// What a counter makes of one of each thing that can happen.
uint64_t count(uint64_t event, uint64_t rsp_0 = 0, uint64_t rsp_1 = 0)
{
    Machine m;
    m.write(IA32_PERFEVTSEL0, event | EVENT_USR);
    // The selection follows a later write of the register, too.
    CHECK_EQUAL(m.write(MSR_OFFCORE_RSP_0, rsp_0), MSR_DONE);
    CHECK_EQUAL(m.write(MSR_OFFCORE_RSP_1, rsp_1), MSR_DONE);
    CHECK_EQUAL(m.read(MSR_OFFCORE_RSP_0), rsp_0);
    m.events.loads[USER] += 1;
    m.events.stores[USER] += 20;
    m.events.l1_misses[USER] += 300;
    m.events.offcore[OFFCORE_READ_HIT][USER] += 4000;
    m.events.offcore[OFFCORE_READ_MISS][USER] += 50000;
    m.events.offcore[OFFCORE_OWN_HIT][USER] += 600000;
    m.events.offcore[OFFCORE_OWN_MISS][USER] += 7000000;
    m.events.loads[KERNEL] += 9;
    m.events.offcore[OFFCORE_READ_MISS][KERNEL] += 9;
    return m.read(IA32_PMC0);
}

TEST(events_of_memory)
{
    CHECK_EQUAL(count(ALL_LOADS), 1u);
    CHECK_EQUAL(count(ALL_STORES), 20u);
    CHECK_EQUAL(count(L1D_REPLACEMENT), 300u);
    CHECK_EQUAL(count(LLC_REFERENCES), 7654000u);
    CHECK_EQUAL(count(LLC_MISSES), 7050000u);
    CHECK_EQUAL(count(0xe08), 0u);  // DTLB_LOAD_MISSES.WALK_COMPLETED: there is no such event
}

TEST(offcore_responses_choose_by_request_and_answer)
{
    CHECK_EQUAL(count(OFFCORE_RESPONSE_0, LLC_LOADS), 54000u);
    CHECK_EQUAL(count(OFFCORE_RESPONSE_0, LLC_LOAD_MISSES), 50000u);
    CHECK_EQUAL(count(OFFCORE_RESPONSE_0, LLC_STORES), 7600000u);
    CHECK_EQUAL(count(OFFCORE_RESPONSE_0, LLC_STORE_MISSES), 7000000u);
    CHECK_EQUAL(count(OFFCORE_RESPONSE_0, NODE_LOADS), 50000u);
    CHECK_EQUAL(count(OFFCORE_RESPONSE_0, NODE_LOAD_MISSES), 0u);
    CHECK_EQUAL(count(OFFCORE_RESPONSE_0, OFFCORE_DEMAND_DATA_RD | OFFCORE_L3_HIT | bit(31)),
                4000u);
    CHECK_EQUAL(count(OFFCORE_RESPONSE_0, OFFCORE_DEMAND_DATA_RD | OFFCORE_L3_HIT), 0u);
    CHECK_EQUAL(count(OFFCORE_RESPONSE_0, OFFCORE_ANY_RESPONSE), 0u);
    CHECK_EQUAL(count(OFFCORE_RESPONSE_0, 0, LLC_LOADS), 0u);
    CHECK_EQUAL(count(OFFCORE_RESPONSE_1, 0, LLC_LOADS), 54000u);
    Machine m;
    CHECK_EQUAL(m.write(MSR_OFFCORE_RSP_0, bit(38)), MSR_FAULT);
}

}  // namespace
