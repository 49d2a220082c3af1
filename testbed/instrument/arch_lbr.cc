// SPDX-License-Identifier: BSD-2-Clause
//
// The stack of records, its filter and its registers. Bits of IA32_LBR_CTL and of INFO as Linux has
// them, too: arch/x86/include/asm/msr-index.h, arch/x86/events/intel/lbr.c.
#include "arch_lbr.h"

#include "msr_index.h"

namespace {

// IA32_LBR_CTL: a bit set lets that kind in.
constexpr uint64_t CTL_LBREN = bit(0);
constexpr uint64_t CTL_OS = bit(1);
constexpr uint64_t CTL_USR = bit(2);
constexpr uint64_t CTL_CALL_STACK = bit(3);
constexpr uint64_t CTL_JCC = bit(16);
constexpr uint64_t CTL_NEAR_REL_JMP = bit(17);
constexpr uint64_t CTL_NEAR_IND_JMP = bit(18);
constexpr uint64_t CTL_NEAR_REL_CALL = bit(19);
constexpr uint64_t CTL_NEAR_IND_CALL = bit(20);
constexpr uint64_t CTL_NEAR_RET = bit(21);
constexpr uint64_t CTL_OTHER_BRANCH = bit(22);
constexpr uint64_t CTL_VALID = 0x7f000f;

// IA32_LBR_x_INFO
constexpr uint64_t INFO_CYCLES_MAX = 0xffff;
constexpr unsigned INFO_BR_TYPE_SHIFT = 56;
constexpr uint64_t INFO_CYC_CNT_VALID = bit(60);
constexpr uint64_t INFO_MISPRED = bit(63);
constexpr uint64_t INFO_VALID = INFO_CYCLES_MAX | uint64_t{0xff} << INFO_BR_TYPE_SHIFT;

constexpr uint32_t LEAF_EXTENDED_FEATURES = 7;
constexpr uint32_t FEATURES_EDX_ARCH_LBR = 1u << 19;
constexpr uint32_t LEAF_ARCH_LBR = 0x1c;
constexpr uint32_t LEAF_EXTENDED = 0x80000000;  // from here on they are not basic ones
// EAX: a bit for each depth of 8, 16, 24, ... records.
constexpr unsigned DEPTH_STEP = 8;
constexpr uint32_t DEPTHS = 1u << 0 | 1u << 1 | 1u << 3;
constexpr uint32_t ALL_THREE = 7;  // EBX: CPL and branch filter, call stack; ECX: INFO's fields

struct Kind {
    uint64_t filter;
    uint64_t type;  // in INFO
};

Kind kind_of(BranchKind kind)
{
    switch (kind) {
    case BRANCH_CONDITIONAL:
        return {CTL_JCC, 0};
    case BRANCH_IND_JMP:
        return {CTL_NEAR_IND_JMP, 1};
    case BRANCH_REL_JMP:
        return {CTL_NEAR_REL_JMP, 2};
    case BRANCH_IND_CALL:
        return {CTL_NEAR_IND_CALL, 3};
    case BRANCH_REL_CALL:
        return {CTL_NEAR_REL_CALL, 4};
    case BRANCH_RET:
        return {CTL_NEAR_RET, 5};
    case BRANCH_FAR:
        break;
    }
    return {CTL_OTHER_BRANCH, 8};
}

bool within(uint32_t index, uint32_t first) { return index >= first && index < first + LBR_DEPTH; }

}  // namespace

void ArchLbr::reset()
{
    unsigned most = most_;

    *this = ArchLbr();
    set_most(most);
}

bool ArchLbr::ctl_valid(uint64_t value) { return (value & ~CTL_VALID) == 0; }

bool ArchLbr::enabled() const { return ctl_ & CTL_LBREN; }

void ArchLbr::debug_exception() { ctl_ &= ~CTL_LBREN; }

// Null: not a record's, or one past the depth.
uint64_t *ArchLbr::find(uint32_t index)
{
    for (uint32_t first : {IA32_LBR_0_FROM_IP, IA32_LBR_0_TO_IP, IA32_LBR_0_INFO}) {
        if (!within(index, first) || index - first >= depth_)
            continue;
        LbrEntry &record = records_[index - first];
        return first == IA32_LBR_0_FROM_IP ? &record.from
               : first == IA32_LBR_0_TO_IP ? &record.to
                                           : &record.info;
    }
    return nullptr;
}

MsrResult ArchLbr::read_msr(uint32_t index, uint64_t *value) const
{
    if (index == IA32_LBR_CTL) {
        *value = ctl_;
    } else if (index == IA32_LBR_DEPTH) {
        *value = depth_;
    } else if (const uint64_t *record = const_cast<ArchLbr *>(this)->find(index)) {
        *value = *record;
    } else {
        return MSR_ABSENT;
    }
    return MSR_DONE;
}

MsrResult ArchLbr::write_msr(uint32_t index, uint64_t value)
{
    if (index == IA32_LBR_CTL) {
        if (!ctl_valid(value))
            return MSR_FAULT;
        ctl_ = value;
    } else if (index == IA32_LBR_DEPTH) {
        uint64_t step = value / DEPTH_STEP;
        if (step == 0 || value % DEPTH_STEP != 0 || value > most_ || !(DEPTHS >> (step - 1) & 1))
            return MSR_FAULT;
        depth_ = static_cast<unsigned>(value);
        for (LbrEntry &record : records_)
            record = LbrEntry();
    } else if (uint64_t *record = find(index)) {
        if (within(index, IA32_LBR_0_INFO))
            value &= INFO_VALID;  // bits 55:16 are undefined, and no fault
        else if (!canonical(value))
            return MSR_FAULT;
        *record = value;
    } else {
        return MSR_ABSENT;
    }
    return MSR_DONE;
}

void ArchLbr::push(const Branch &branch)
{
    uint64_t cycles = branch.cycles - last_cycles_;

    for (unsigned i = depth_ - 1; i > 0; i--)
        records_[i] = records_[i - 1];
    if (cycles > INFO_CYCLES_MAX)
        cycles = INFO_CYCLES_MAX;
    records_[0] = {branch.from, branch.to,
                   cycles | INFO_CYC_CNT_VALID | kind_of(branch.kind).type << INFO_BR_TYPE_SHIFT |
                       (branch.mispredicted ? INFO_MISPRED : 0)};
    last_cycles_ = branch.cycles;
}

void ArchLbr::pop()
{
    for (unsigned i = 0; i + 1 < depth_; i++)
        records_[i] = records_[i + 1];
    records_[depth_ - 1] = LbrEntry();
}

LbrEntry ArchLbr::newest(unsigned n) const { return n < depth_ ? records_[n] : LbrEntry(); }

bool ArchLbr::record(const Branch &branch)
{
    if (!(ctl_ & (branch.user ? CTL_USR : CTL_OS)) || !(ctl_ & kind_of(branch.kind).filter))
        return false;
    if ((ctl_ & CTL_CALL_STACK) && is_call_to_next(branch.kind, branch.from, branch.to))
        return false;
    if ((ctl_ & CTL_CALL_STACK) && branch.kind == BRANCH_RET)
        pop();
    else
        push(branch);
    return true;
}

void arch_lbr_cpuid(unsigned most, uint32_t own, uint32_t extended, uint32_t leaf, uint32_t subleaf,
                    CpuidResult *result)
{
    if (leaf == 0 && result->eax < LEAF_ARCH_LBR)
        result->eax = LEAF_ARCH_LBR;
    // What the moved end has before it is reserved.
    if (leaf > own && leaf < LEAF_ARCH_LBR)
        *result = CpuidResult();
    if (leaf == LEAF_EXTENDED_FEATURES && subleaf == 0)
        result->edx |= FEATURES_EDX_ARCH_LBR;
    // The highest one that there is now: it answers for those past it, too.
    bool past = leaf > (leaf < LEAF_EXTENDED ? LEAF_ARCH_LBR : extended);
    if (leaf == LEAF_ARCH_LBR || (own < LEAF_ARCH_LBR && past))
        *result = {DEPTHS & ((1u << most / DEPTH_STEP) - 1), ALL_THREE, ALL_THREE, 0};
}
