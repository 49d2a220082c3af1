// SPDX-License-Identifier: BSD-2-Clause
//
// The branch predictor and the caches of the model: tables, so that the same run gives the same
// counts.
#include "microarch.h"

#include <algorithm>

namespace {

constexpr uint8_t STRONGLY_TAKEN = 3;
constexpr uint8_t TAKEN = 2;
constexpr uint8_t NOT_TAKEN = 1;

}  // namespace

// Low address bits tell neighbours apart, higher ones spread the program's parts.
unsigned BranchPredictor::slot(uint64_t from)
{
    return static_cast<unsigned>(from ^ from >> 12) % ENTRIES;
}

bool BranchPredictor::conditional_miss(uint64_t from, bool taken)
{
    Conditional &branch = conditionals_[slot(from)];

    if (branch.from != from) {
        branch.from = from;
        std::fill_n(branch.states, HISTORIES, taken ? TAKEN : NOT_TAKEN);
        branch.history = taken ? HISTORIES - 1 : 0;
        return taken;
    }
    uint8_t &state = branch.states[branch.history];
    bool wrong = (state >= TAKEN) != taken;
    if (taken && state < STRONGLY_TAKEN)
        state++;
    else if (!taken && state > 0)
        state--;
    branch.history = static_cast<uint8_t>((branch.history << 1 | taken) % HISTORIES);
    return wrong;
}

bool BranchPredictor::target_miss(uint64_t from, uint64_t to)
{
    bool wrong = from_[slot(from)] != from || to_[slot(from)] != to;

    from_[slot(from)] = from;
    to_[slot(from)] = to;
    return wrong;
}

// A return goes to the instruction after its call, whose length is not known here: 2 to 15 bytes.
bool BranchPredictor::return_miss(uint64_t from, uint64_t to)
{
    constexpr uint64_t shortest_call = 2, longest_instruction = 15;

    if (top_ == 0)
        return target_miss(from, to);
    uint64_t length = to - stack_[--top_ % STACK];
    return length < shortest_call || length > longest_instruction;
}

bool BranchPredictor::miss(BranchKind kind, uint64_t from, uint64_t to, bool taken)
{
    bool wrong = false;

    if (kind == BRANCH_CONDITIONAL)
        wrong = conditional_miss(from, taken);
    else if (kind == BRANCH_IND_CALL || kind == BRANCH_IND_JMP)
        wrong = target_miss(from, to);
    else if (kind == BRANCH_RET)
        wrong = return_miss(from, to);
    if (kind == BRANCH_IND_CALL || (kind == BRANCH_REL_CALL && !is_call_to_next(kind, from, to)))
        push(from);
    return wrong;
}

void BranchPredictor::barrier()
{
    std::fill_n(from_, ENTRIES, 0);
    std::fill_n(to_, ENTRIES, 0);
    top_ = 0;
}

bool Cache::l1_access(uint64_t tag)
{
    uint64_t *set = l1_[tag % L1_SETS];
    uint64_t *end = set + L1_WAYS;
    uint64_t *way = std::find(set, end, tag);
    bool hit = way != end;

    // Before it all move back by one; of a full set the last one falls out.
    std::move_backward(set, hit ? way : end - 1, hit ? way + 1 : end);
    set[0] = tag;
    return hit;
}

CacheOutcome Cache::access(uint64_t paddr)
{
    uint64_t tag = tag_of(paddr);

    if (l1_access(tag))
        return CACHE_L1;
    if (near_[tag % NEAR_LINES] == tag)
        return CACHE_NEAR;
    near_[tag % NEAR_LINES] = tag;
    if (llc_[tag % LLC_LINES] == tag)
        return CACHE_LLC_HIT;
    llc_[tag % LLC_LINES] = tag;
    return CACHE_LLC_MISS;
}

void Cache::evict(uint64_t paddr)
{
    uint64_t tag = tag_of(paddr);
    uint64_t *set = l1_[tag % L1_SETS];

    std::replace(set, set + L1_WAYS, tag, uint64_t{0});
    if (near_[tag % NEAR_LINES] == tag)
        near_[tag % NEAR_LINES] = 0;
    if (llc_[tag % LLC_LINES] == tag)
        llc_[tag % LLC_LINES] = 0;
}

void Cache::clear()
{
    for (uint64_t(&set)[L1_WAYS] : l1_)
        std::fill_n(set, L1_WAYS, 0);
    std::fill_n(near_, NEAR_LINES, 0);
    std::fill_n(llc_, LLC_LINES, 0);
}
