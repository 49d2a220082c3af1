// SPDX-License-Identifier: BSD-2-Clause
//
// The architectural branch records: order, depth, filter, call stack, INFO, reserved bits and
// CPUID. SDM Vol. 3, "Last Branch Records"; Vol. 2, "CPUID". Numbers are written down here once
// more.
#include "arch_lbr.h"
#include "check.h"
#include "msr_index.h"
#include "records.h"

namespace {

constexpr uint64_t EVERYTHING = 0x7f0007;  // LBREn, OS, USR, all kinds

ArchLbr with_ctl(uint64_t ctl)
{
    ArchLbr lbr;
    CHECK_EQUAL(lbr.write_msr(0x14ce, ctl), MSR_DONE);
    return lbr;
}

TEST(newest_architectural_record_is_first)
{
    ArchLbr lbr = with_ctl(EVERYTHING);
    for (unsigned n = 1; n <= 35; n++)
        CHECK(lbr.record(make(BRANCH_REL_JMP, n)));
    CHECK_EQUAL(read(lbr, 0x1500), 35u);
    CHECK_EQUAL(read(lbr, 0x1600), 35u + 0x100u);
    CHECK_EQUAL(read(lbr, 0x151f), 4u);
}

TEST(depth_bounds_and_clears)
{
    ArchLbr lbr = with_ctl(EVERYTHING);
    uint64_t value;
    lbr.record(make(BRANCH_REL_JMP, 1));
    CHECK_EQUAL(read(lbr, 0x14cf), 32u);
    CHECK_EQUAL(lbr.write_msr(0x14cf, 8), MSR_DONE);
    CHECK_EQUAL(read(lbr, 0x1500), 0u);
    for (unsigned n = 1; n <= 9; n++)
        lbr.record(make(BRANCH_REL_JMP, n));
    CHECK_EQUAL(read(lbr, 0x1507), 2u);
    CHECK_EQUAL(lbr.read_msr(0x1508, &value), MSR_ABSENT);
    for (uint64_t bad : {0, 1, 12, 24, 40})
        CHECK_EQUAL(lbr.write_msr(0x14cf, bad), MSR_FAULT);
}

TEST(architectural_info)
{
    ArchLbr lbr = with_ctl(EVERYTHING);
    lbr.record(make(BRANCH_RET, 1, true, false, 10));
    lbr.record(make(BRANCH_CONDITIONAL, 2, true, true, 17));
    CHECK_EQUAL(read(lbr, 0x1200), bit(63) | bit(60) | 7u);
    CHECK_EQUAL(read(lbr, 0x1201), bit(60) | uint64_t{5} << 56 | 10u);
}

TEST(architectural_filter_lets_in)
{
    ArchLbr lbr = with_ctl(bit(0) | bit(2) | bit(17));
    CHECK(!lbr.record(make(BRANCH_CONDITIONAL, 1)));
    CHECK(!lbr.record(make(BRANCH_REL_JMP, 2, false)));
    CHECK(lbr.record(make(BRANCH_REL_JMP, 3)));
    CHECK_EQUAL(read(lbr, 0x1500), 3u);
    CHECK_EQUAL(read(lbr, 0x1501), 0u);
}

TEST(architectural_call_stack_pops)
{
    ArchLbr lbr = with_ctl(EVERYTHING | bit(3));
    lbr.record(make(BRANCH_REL_CALL, 1));
    lbr.record(make(BRANCH_IND_CALL, 2));
    lbr.record(make(BRANCH_RET, 3));
    CHECK_EQUAL(read(lbr, 0x1500), 1u);
    CHECK_EQUAL(read(lbr, 0x1501), 0u);
    CHECK(!lbr.record({BRANCH_REL_CALL, 50, 55, true, false, 0}));
}

TEST(architectural_reserved_bits_fault)
{
    ArchLbr lbr;
    uint64_t value;
    CHECK_EQUAL(lbr.write_msr(0x14ce, bit(4)), MSR_FAULT);
    CHECK_EQUAL(lbr.write_msr(0x14ce, bit(23)), MSR_FAULT);
    CHECK_EQUAL(lbr.write_msr(0x1200, bit(16) | 5), MSR_DONE);
    CHECK_EQUAL(read(lbr, 0x1200), 5u);
    CHECK_EQUAL(lbr.write_msr(0x1500, bit(47)), MSR_FAULT);
    CHECK_EQUAL(lbr.read_msr(0x1520, &value), MSR_ABSENT);
}

TEST(debug_exception_ends_architectural_records)
{
    ArchLbr lbr = with_ctl(EVERYTHING);
    lbr.debug_exception();
    CHECK(!lbr.enabled());
    CHECK_EQUAL(read(lbr, 0x14ce), EVERYTHING & ~bit(0));
}

TEST(a_processor_may_have_fewer_records)
{
    CpuidResult result = {};
    ArchLbr lbr;
    uint64_t value;
    lbr.set_most(8);
    lbr.reset();
    CHECK_EQUAL(read(lbr, 0x14cf), 8u);
    CHECK_EQUAL(lbr.write_msr(0x14cf, 16), MSR_FAULT);
    CHECK_EQUAL(lbr.write_msr(0x14cf, 8), MSR_DONE);
    CHECK_EQUAL(lbr.read_msr(0x1508, &value), MSR_ABSENT);
    arch_lbr_cpuid(8, 0x16, 0x80000008, 0x1c, 0, &result);
    CHECK_EQUAL(result.eax, 1u);
}

TEST(cpuid_shows_leaf_1ch)
{
    CpuidResult result = {0x16, 1, 2, 3};
    arch_lbr_cpuid(LBR_DEPTH, 0x16, 0x80000008, 0, 0, &result);
    CHECK_EQUAL(result.eax, 0x1cu);
    result = {5, 5, 5, 5};
    arch_lbr_cpuid(LBR_DEPTH, 0x16, 0x80000008, 0x17, 0, &result);
    CHECK_EQUAL(result.ecx, 0u);
    result = {0, 0, 0, 1};
    arch_lbr_cpuid(LBR_DEPTH, 0x16, 0x80000008, 7, 0, &result);
    CHECK_EQUAL(result.edx, 1u << 19 | 1u);
    arch_lbr_cpuid(LBR_DEPTH, 0x16, 0x80000008, 0x1c, 0, &result);
    CHECK_EQUAL(result.eax, 0xbu);
    for (uint32_t past : {0x1du, 0x40u, 0x7fffffffu, 0x80000009u, 0xffffffffu}) {
        result = {};
        arch_lbr_cpuid(LBR_DEPTH, 0x16, 0x80000008, past, 0, &result);
        CHECK_EQUAL(result.eax, 0xbu);
    }
    result = {};
    arch_lbr_cpuid(LBR_DEPTH, 0x16, 0x80000008, 0x80000008, 0, &result);
    CHECK_EQUAL(result.eax, 0u);
}

}  // namespace
