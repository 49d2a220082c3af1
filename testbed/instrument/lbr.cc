// SPDX-License-Identifier: BSD-2-Clause
//
// The branch record ring, its filter and the call-stack mode. SDM Vol. 3, "Filtering of Last Branch
// Records" and "LBR Stack".
#include "lbr.h"

#include "msr_index.h"

namespace {

// MSR_LBR_SELECT: a bit set keeps that kind out, except for the last.
constexpr uint64_t SELECT_CPL_EQ_0 = bit(0);
constexpr uint64_t SELECT_CPL_NEQ_0 = bit(1);
constexpr uint64_t SELECT_JCC = bit(2);
constexpr uint64_t SELECT_NEAR_REL_CALL = bit(3);
constexpr uint64_t SELECT_NEAR_IND_CALL = bit(4);
constexpr uint64_t SELECT_NEAR_RET = bit(5);
constexpr uint64_t SELECT_NEAR_IND_JMP = bit(6);
constexpr uint64_t SELECT_NEAR_REL_JMP = bit(7);
constexpr uint64_t SELECT_FAR_BRANCH = bit(8);
constexpr uint64_t SELECT_EN_CALLSTACK = bit(9);
constexpr uint64_t SELECT_VALID = bit(10) - 1;

// MSR_LBR_INFO_x
constexpr uint64_t INFO_CYCLES_MAX = 0xffff;
constexpr uint64_t INFO_MISPRED = bit(63);
constexpr uint64_t INFO_VALID = INFO_CYCLES_MAX | bit(61) | bit(62) | INFO_MISPRED;

uint64_t select_bit(BranchKind kind)
{
    switch (kind) {
    case BRANCH_CONDITIONAL:
        return SELECT_JCC;
    case BRANCH_REL_CALL:
        return SELECT_NEAR_REL_CALL;
    case BRANCH_IND_CALL:
        return SELECT_NEAR_IND_CALL;
    case BRANCH_RET:
        return SELECT_NEAR_RET;
    case BRANCH_IND_JMP:
        return SELECT_NEAR_IND_JMP;
    case BRANCH_REL_JMP:
        return SELECT_NEAR_REL_JMP;
    case BRANCH_FAR:
        return SELECT_FAR_BRANCH;
    }
    return 0;
}

}  // namespace

void Lbr::reset() { *this = Lbr(); }

MsrResult Lbr::read_msr(uint32_t index, uint64_t *value) const
{
    if (index >= MSR_LASTBRANCH_0_FROM_IP && index < MSR_LASTBRANCH_0_FROM_IP + LBR_DEPTH)
        *value = from_[index - MSR_LASTBRANCH_0_FROM_IP];
    else if (index >= MSR_LASTBRANCH_0_TO_IP && index < MSR_LASTBRANCH_0_TO_IP + LBR_DEPTH)
        *value = to_[index - MSR_LASTBRANCH_0_TO_IP];
    else if (index >= MSR_LBR_INFO_0 && index < MSR_LBR_INFO_0 + LBR_DEPTH)
        *value = info_[index - MSR_LBR_INFO_0];
    else if (index == MSR_LBR_SELECT)
        *value = select_;
    else if (index == MSR_LASTBRANCH_TOS)
        *value = tos_;
    else
        return MSR_ABSENT;
    return MSR_DONE;
}

MsrResult Lbr::write_msr(uint32_t index, uint64_t value)
{
    if (index >= MSR_LASTBRANCH_0_FROM_IP && index < MSR_LASTBRANCH_0_FROM_IP + LBR_DEPTH) {
        if (!canonical(value))
            return MSR_FAULT;
        from_[index - MSR_LASTBRANCH_0_FROM_IP] = value;
    } else if (index >= MSR_LASTBRANCH_0_TO_IP && index < MSR_LASTBRANCH_0_TO_IP + LBR_DEPTH) {
        if (!canonical(value))
            return MSR_FAULT;
        to_[index - MSR_LASTBRANCH_0_TO_IP] = value;
    } else if (index >= MSR_LBR_INFO_0 && index < MSR_LBR_INFO_0 + LBR_DEPTH) {
        if (value & ~INFO_VALID)
            return MSR_FAULT;
        info_[index - MSR_LBR_INFO_0] = value;
    } else if (index == MSR_LBR_SELECT) {
        if (value & ~SELECT_VALID)
            return MSR_FAULT;
        select_ = value;
    } else if (index == MSR_LASTBRANCH_TOS) {
        if (value >= LBR_DEPTH)
            return MSR_FAULT;
        tos_ = static_cast<unsigned>(value);
    } else {
        return MSR_ABSENT;
    }
    return MSR_DONE;
}

LbrEntry Lbr::newest(unsigned n) const
{
    unsigned at = (tos_ + LBR_DEPTH - n % LBR_DEPTH) % LBR_DEPTH;

    return n < LBR_DEPTH ? LbrEntry{from_[at], to_[at], info_[at]} : LbrEntry();
}

bool Lbr::filtered(const Branch &branch) const
{
    if (select_ & (branch.user ? SELECT_CPL_NEQ_0 : SELECT_CPL_EQ_0))
        return true;
    return select_ & select_bit(branch.kind);
}

void Lbr::push(const Branch &branch)
{
    uint64_t cycles = branch.cycles - last_cycles_;

    tos_ = (tos_ + 1) % LBR_DEPTH;
    from_[tos_] = branch.from;
    to_[tos_] = branch.to;
    info_[tos_] = cycles > INFO_CYCLES_MAX ? INFO_CYCLES_MAX : cycles;
    if (branch.mispredicted)
        info_[tos_] |= INFO_MISPRED;
    last_cycles_ = branch.cycles;
}

bool Lbr::record(const Branch &branch)
{
    bool callstack = select_ & SELECT_EN_CALLSTACK;

    if (filtered(branch))
        return false;
    if (callstack && branch.kind == BRANCH_RET) {
        tos_ = (tos_ + LBR_DEPTH - 1) % LBR_DEPTH;
        return true;
    }
    if (callstack && is_call_to_next(branch.kind, branch.from, branch.to))
        return false;
    push(branch);
    return true;
}
