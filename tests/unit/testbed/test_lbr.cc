// SPDX-License-Identifier: BSD-2-Clause
//
// The branch records: ring, filter, call stack and reserved bits. SDM Vol. 3, "LBR Stack".
#include "check.h"
#include "lbr.h"
#include "msr_index.h"
#include "records.h"

namespace {

TEST(ring_wraps_after_32_records)
{
    Lbr lbr;
    for (unsigned n = 1; n <= LBR_DEPTH + 3; n++)
        lbr.record(make(BRANCH_REL_JMP, n));
    unsigned tos = static_cast<unsigned>(read(lbr, MSR_LASTBRANCH_TOS));
    CHECK_EQUAL(tos, 3u);
    CHECK_EQUAL(read(lbr, MSR_LASTBRANCH_0_FROM_IP + tos), LBR_DEPTH + 3u);
    CHECK_EQUAL(read(lbr, MSR_LASTBRANCH_0_FROM_IP + tos + 1), 4u);
    CHECK_EQUAL(read(lbr, MSR_LASTBRANCH_0_TO_IP + tos), LBR_DEPTH + 3u + 0x100u);
}

TEST(info_holds_cycles_and_misprediction)
{
    Lbr lbr;
    lbr.record(make(BRANCH_RET, 1, true, false, 10));
    lbr.record(make(BRANCH_RET, 2, true, true, 17));
    CHECK_EQUAL(read(lbr, MSR_LBR_INFO_0 + 2), bit(63) | 7u);
    lbr.record(make(BRANCH_RET, 3, true, false, 1000000));
    CHECK_EQUAL(read(lbr, MSR_LBR_INFO_0 + 3), 0xffffu);
}

TEST(select_keeps_kinds_and_rings_out)
{
    Lbr lbr;
    CHECK_EQUAL(lbr.write_msr(MSR_LBR_SELECT, bit(0) | bit(2)), MSR_DONE);
    lbr.record(make(BRANCH_CONDITIONAL, 1));
    lbr.record(make(BRANCH_REL_JMP, 2, false));
    CHECK_EQUAL(read(lbr, MSR_LASTBRANCH_TOS), 0u);
    lbr.record(make(BRANCH_REL_JMP, 3));
    CHECK_EQUAL(read(lbr, MSR_LASTBRANCH_TOS), 1u);
}

TEST(call_stack_pops_at_returns)
{
    Lbr lbr;
    lbr.write_msr(MSR_LBR_SELECT, bit(9));
    lbr.record(make(BRANCH_REL_CALL, 1));
    lbr.record(make(BRANCH_IND_CALL, 2));
    CHECK_EQUAL(read(lbr, MSR_LASTBRANCH_TOS), 2u);
    lbr.record(make(BRANCH_RET, 3));
    CHECK_EQUAL(read(lbr, MSR_LASTBRANCH_TOS), 1u);
    lbr.record({BRANCH_REL_CALL, 50, 55, true, false, 0});
    CHECK_EQUAL(read(lbr, MSR_LASTBRANCH_TOS), 1u);
}

TEST(a_change_of_the_records_is_told)
{
    Lbr lbr;
    CHECK(lbr.record(make(BRANCH_CONDITIONAL, 1)));
    lbr.write_msr(MSR_LBR_SELECT, bit(2));
    CHECK(!lbr.record(make(BRANCH_CONDITIONAL, 1)));
    lbr.write_msr(MSR_LBR_SELECT, bit(9));
    CHECK(lbr.record(make(BRANCH_RET, 3)));
    CHECK(!lbr.record({BRANCH_REL_CALL, 50, 55, true, false, 0}));
}

TEST(branch_record_msrs_check_their_values)
{
    Lbr lbr;
    uint64_t value;
    CHECK_EQUAL(lbr.write_msr(MSR_LBR_SELECT, bit(10)), MSR_FAULT);
    CHECK_EQUAL(lbr.write_msr(MSR_LASTBRANCH_TOS, LBR_DEPTH), MSR_FAULT);
    CHECK_EQUAL(lbr.write_msr(MSR_LASTBRANCH_0_FROM_IP, bit(47)), MSR_FAULT);
    CHECK_EQUAL(lbr.write_msr(MSR_LASTBRANCH_0_FROM_IP, ~uint64_t{0}), MSR_DONE);
    CHECK_EQUAL(lbr.read_msr(MSR_LASTBRANCH_0_FROM_IP + LBR_DEPTH, &value), MSR_ABSENT);
}

}  // namespace
