/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The kinds of branches that the branch records and the branch predictor tell apart.
 */
#pragma once

#include <cstdint>

enum BranchKind {
    BRANCH_CONDITIONAL,
    BRANCH_REL_CALL,
    BRANCH_IND_CALL,
    BRANCH_RET,
    BRANCH_IND_JMP,
    BRANCH_REL_JMP,
    BRANCH_FAR
};

/* What parts (part.h) are told of one that was taken. */
struct TracedBranch {
    uint64_t from = 0;
    uint64_t to = 0;
    uint64_t cycles = 0; /* since the machine was made */
    BranchKind kind = BRANCH_FAR;
    bool mispredicted = false;
    bool user_before = false;
    bool user_after = false;
    bool event = false; /* delivered by the processor: `vector` is whose */
    unsigned vector = 0;
};

/* What the events of branches tell apart; each branch is of one class. */
enum BranchClass {
    CLASS_CONDITIONAL_TAKEN,
    CLASS_CONDITIONAL_NOT_TAKEN,
    CLASS_CALL,
    CLASS_RET,
    CLASS_JMP,
    CLASS_FAR,
    BRANCH_CLASSES
};

inline BranchClass branch_class(BranchKind kind, bool taken)
{
    switch (kind) {
    case BRANCH_CONDITIONAL:
        return taken ? CLASS_CONDITIONAL_TAKEN : CLASS_CONDITIONAL_NOT_TAKEN;
    case BRANCH_REL_CALL:
    case BRANCH_IND_CALL:
        return CLASS_CALL;
    case BRANCH_RET:
        return CLASS_RET;
    case BRANCH_IND_JMP:
    case BRANCH_REL_JMP:
        return CLASS_JMP;
    case BRANCH_FAR:
        break;
    }
    return CLASS_FAR;
}

/* A call to the next instruction is how position-independent code reads its address. */
inline bool is_call_to_next(BranchKind kind, uint64_t from, uint64_t to)
{
    constexpr uint64_t near_call_length = 5;

    return kind == BRANCH_REL_CALL && to == from + near_call_length;
}
