// SPDX-License-Identifier: BSD-2-Clause
//
// The registers of Intel PT: reserved bits, what TraceEn forbids, and leaf 14H. SDM Vol. 3, "Intel
// Processor Trace", "Enabling and Configuration MSRs". Numbers are written down here once more.
#include "check.h"
#include "msr_index.h"
#include "pt_memory.h"

namespace {

constexpr uint32_t BASE = 0x560, MASK = 0x561, CTL = 0x570, STATUS = 0x571, CR3_MATCH = 0x572;
constexpr uint32_t ADDR0_A = 0x580, ADDR1_B = 0x583;

MsrResult write(Traced &traced, uint32_t index, uint64_t value)
{
    return traced.pt.write_msr(index, value, nullptr);
}

TEST(pt_leaf_is_ice_lakes)
{
    CpuidResult features = {}, leaf = {}, first = {}, past = {1, 1, 1, 1};
    pt_cpuid(false, 7, 0, &features);
    pt_cpuid(false, 0x14, 0, &leaf);
    pt_cpuid(false, 0x14, 1, &first);
    pt_cpuid(false, 0x14, 2, &past);
    CHECK_EQUAL(features.ebx, 1u << 25);
    CHECK(leaf.eax == 1 && leaf.ebx == 0xf && leaf.ecx == 7 && leaf.edx == 0);
    CHECK(first.eax == 0x02490002 && first.ebx == 0x003f1fff && first.ecx == 0 && first.edx == 0);
    CHECK(past.eax == 0 && past.ebx == 0 && past.ecx == 0 && past.edx == 0);
    pt_cpuid(true, 0x14, 0, &leaf);
    CHECK_EQUAL(leaf.ebx, 0x1fu);
}

TEST(pt_ctl_reserved_bits)
{
    Traced traced;
    for (uint64_t good : {bit(1), bit(2), bit(3), bit(7), bit(8), bit(9), bit(10), bit(11), bit(13),
                          uint64_t{3} << 14, uint64_t{6} << 14, uint64_t{9} << 14, bit(32),
                          uint64_t{12} << 19, uint64_t{5} << 24, bit(33), bit(36), bit(37)})
        CHECK_EQUAL(write(traced, CTL, good), MSR_DONE);
    for (uint64_t bad : {bit(4), bit(5), bit(6), bit(12), bit(18), bit(23), bit(28), bit(31),
                         bit(40), bit(55), bit(63), bit(14), uint64_t{15} << 14, uint64_t{13} << 19,
                         uint64_t{6} << 24, uint64_t{3} << 32, uint64_t{3} << 36})
        CHECK_EQUAL(write(traced, CTL, bad), MSR_FAULT);
    Traced with({true, 39, 48});
    CHECK_EQUAL(write(with, CTL, bit(12) | bit(5)), MSR_DONE);
}

TEST(pt_traceen_locks_the_rest)
{
    Traced traced;
    traced.start(bit(3) | bit(13), 0x401000);
    for (uint32_t index : {BASE, MASK, STATUS, CR3_MATCH, ADDR0_A, ADDR1_B})
        CHECK_EQUAL(write(traced, index, traced.get(index)), MSR_FAULT);
    CHECK_EQUAL(write(traced, CTL, bit(0) | bit(2) | bit(13)), MSR_FAULT);
    CHECK_EQUAL(write(traced, CTL, bit(0) | bit(3) | bit(13)), MSR_DONE);
    CHECK_EQUAL(write(traced, CTL, bit(2)), MSR_DONE);
    CHECK_EQUAL(traced.get(CTL), bit(2));
    CHECK_EQUAL(write(traced, STATUS, 0), MSR_DONE);
}

TEST(pt_other_registers)
{
    Traced traced;
    uint64_t value;
    uint64_t written = bit(4) | bit(5) | bit(48);
    CHECK_EQUAL(write(traced, STATUS, bit(0) | bit(1) | bit(2) | written), MSR_DONE);
    CHECK_EQUAL(traced.get(STATUS), written);
    for (unsigned n : {3, 6, 31, 49, 63})
        CHECK_EQUAL(write(traced, STATUS, bit(n)), MSR_FAULT);
    CHECK_EQUAL(write(traced, CR3_MATCH, ~uint64_t{0x1f}), MSR_DONE);
    CHECK_EQUAL(write(traced, CR3_MATCH, bit(4)), MSR_FAULT);
    CHECK_EQUAL(write(traced, BASE, bit(39) - 128), MSR_DONE);
    CHECK_EQUAL(write(traced, BASE, bit(39)), MSR_FAULT);
    CHECK_EQUAL(write(traced, BASE, bit(6)), MSR_FAULT);
    CHECK_EQUAL(write(traced, MASK, bit(40)), MSR_DONE);
    CHECK_EQUAL(traced.get(MASK), bit(40) | 0x7f);
    CHECK_EQUAL(write(traced, ADDR0_A, 0xffff800000000000), MSR_DONE);
    CHECK_EQUAL(write(traced, ADDR1_B, 0x800000000000), MSR_FAULT);
    for (uint32_t absent : {0x562, 0x573, 0x584, 0x587})
        CHECK_EQUAL(traced.pt.read_msr(absent, &value), MSR_ABSENT);
}

TEST(pt_warm_reset_keeps_all_but_traceen)
{
    Traced traced;
    traced.set(CR3_MATCH, 0x1000);
    traced.start(bit(3) | bit(13), 0x401000);
    traced.pt.reset();
    CHECK_EQUAL(traced.get(CTL), bit(3) | bit(13));
    CHECK_EQUAL(traced.get(CR3_MATCH), 0x1000u);
    CHECK(!traced.pt.on());
    CHECK_EQUAL(traced.get(STATUS) & bit(2), 0u);
}

}  // namespace
