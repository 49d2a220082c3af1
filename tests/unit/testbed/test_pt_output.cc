// SPDX-License-Identifier: BSD-2-Clause
//
// The trace's output: a single range in a circle, tables with END, STOP and INT, and what is an
// operational error. SDM Vol. 3, "Intel Processor Trace", "Trace Output".
#include "check.h"
#include "pt_memory.h"

namespace {

constexpr uint64_t TABLE = 0x100000, OTHER_TABLE = 0x101000;
constexpr uint64_t ERROR = 1 << 4, STOPPED = 1 << 5, TRIGGEREN = 1 << 2;
constexpr uint64_t USER_TOPA = bit(3) | bit(13) | bit(8);
constexpr uint64_t END = 1, INT = 4, STOP = 16;

// Goes on until so many bytes have been written, or nothing comes any more.
void fill(Traced &traced, uint64_t bytes)
{
    for (uint64_t n = 0; traced.pt.bytes() < bytes && n < bytes; n++)
        traced.pt.near(PT_INDIRECT, n & 1 ? 0x500000 : 0x7f0000600000, 0);
}

void with_topa(Traced &traced, std::map<uint64_t, uint64_t> entries)
{
    traced.memory.entries = entries;
    traced.set(IA32_RTIT_OUTPUT_BASE, TABLE);
    traced.set(IA32_RTIT_OUTPUT_MASK_PTRS, 0);
    traced.start(USER_TOPA, 0x401000);
}

TEST(pt_single_range_is_a_circle)
{
    Traced traced;
    traced.set(IA32_RTIT_OUTPUT_MASK_PTRS, uint64_t{0x70} << 32 | 0x7f);
    traced.start(bit(3) | bit(13), 0x401000);
    fill(traced, 300);
    CHECK_EQUAL(traced.memory.bytes.size(), 128u);
    CHECK_EQUAL(traced.memory.bytes.begin()->first, 0x10000000u);
    CHECK_EQUAL(traced.get(IA32_RTIT_OUTPUT_MASK_PTRS) >> 32, (0x70 + traced.pt.bytes()) & 0x7f);
}

TEST(pt_single_range_errors)
{
    const std::pair<uint64_t, uint64_t> bad[] = {
        {0x10000000, 0x17f}, {0x10000080, 0xff}, {0x10000000, uint64_t{0x100} << 32 | 0xff}};
    for (auto [base, mask] : bad) {
        Traced traced;
        traced.set(IA32_RTIT_OUTPUT_BASE, base);
        traced.set(IA32_RTIT_OUTPUT_MASK_PTRS, mask);
        traced.start(bit(3) | bit(13), 0x401000);
        CHECK_EQUAL(traced.get(IA32_RTIT_STATUS) & (ERROR | TRIGGEREN), ERROR);
        CHECK(!traced.pt.on() && traced.memory.stream.empty());
    }
}

TEST(pt_topa_goes_from_region_to_region)
{
    Traced traced;
    with_topa(traced, {{TABLE, 0x200000},
                       {TABLE + 8, 0x300000 | 1 << 6 | INT},
                       {TABLE + 16, OTHER_TABLE | END},
                       {OTHER_TABLE, 0x400000}});
    fill(traced, 4096 + 8192 + 100);
    CHECK_EQUAL(traced.memory.interrupts, 1u);
    CHECK_EQUAL(traced.get(IA32_RTIT_OUTPUT_BASE), OTHER_TABLE);
    CHECK_EQUAL(traced.get(IA32_RTIT_OUTPUT_MASK_PTRS) & 0xffffffff, 0x7fu);
    CHECK_EQUAL(traced.get(IA32_RTIT_OUTPUT_MASK_PTRS) >> 32, traced.pt.bytes() - 4096 - 8192);
    CHECK(traced.memory.bytes.count(0x200fff) && traced.memory.bytes.count(0x300000) &&
          traced.memory.bytes.count(0x301fff) && traced.memory.bytes.count(0x400000));
}

TEST(pt_topa_stop)
{
    Traced traced;
    with_topa(traced,
              {{TABLE, 0x200000}, {TABLE + 8, 0x300000 | STOP | INT}, {TABLE + 16, TABLE | END}});
    fill(traced, 9000);
    CHECK_EQUAL(traced.pt.bytes(), 8192u);
    CHECK_EQUAL(traced.get(IA32_RTIT_STATUS) & (STOPPED | ERROR | TRIGGEREN), STOPPED);
    CHECK_EQUAL(traced.memory.interrupts, 1u);
    // The pointers stay at the end of that region.
    CHECK_EQUAL(traced.get(IA32_RTIT_OUTPUT_MASK_PTRS), uint64_t{4096} << 32 | 1 << 7 | 0x7f);
    CHECK_EQUAL(traced.get(IA32_RTIT_OUTPUT_BASE), TABLE);
    // Stopped has to be cleared before tracing begins again, and the pointers set.
    traced.stop(0x401000);
    CHECK_EQUAL(traced.pt.bytes(), 8192u);
    traced.start(USER_TOPA, 0x401000);
    CHECK(!traced.pt.on());
    traced.stop(0x401000);
    traced.set(IA32_RTIT_STATUS, 0);
    traced.start(USER_TOPA, 0x401000);
    CHECK_EQUAL(traced.get(IA32_RTIT_STATUS) & (STOPPED | ERROR), ERROR);
}

TEST(pt_topa_errors)
{
    for (uint64_t bad :
         {uint64_t{0x200002}, uint64_t{0x200008}, uint64_t{0x200020}, uint64_t{0x200400},
          uint64_t{0x200800}, uint64_t{0x201000 | 1 << 6}, bit(39) | 0x200000, TABLE | END}) {
        Traced traced;
        with_topa(traced, {{TABLE, bad}, {TABLE + 8, TABLE | END}});
        CHECK_EQUAL(traced.get(IA32_RTIT_STATUS) & (ERROR | TRIGGEREN), ERROR);
    }
    // When it is reached, not before.
    Traced later;
    with_topa(later, {{TABLE, 0x200000}, {TABLE + 8, TABLE | END | INT}});
    CHECK(later.pt.on());
    fill(later, 5000);
    CHECK_EQUAL(later.pt.bytes(), 4096u);
    CHECK_EQUAL(later.get(IA32_RTIT_STATUS) & (ERROR | STOPPED | TRIGGEREN), ERROR);
    Traced unaligned;
    unaligned.memory.entries = {{TABLE + 0x80, 0x200000}};
    unaligned.set(IA32_RTIT_OUTPUT_BASE, TABLE + 0x80);
    unaligned.set(IA32_RTIT_OUTPUT_MASK_PTRS, 0);
    unaligned.start(USER_TOPA, 0x401000);
    CHECK_EQUAL(unaligned.get(IA32_RTIT_STATUS) & ERROR, ERROR);
}

TEST(pt_next_page)
{
    Traced traced;
    uint64_t next;
    with_topa(
        traced,
        {{TABLE, 0x200000 | 1 << 6}, {TABLE + 8, 0x300000 | STOP}, {TABLE + 16, TABLE | END}});
    PtOutput &output = traced.pt.output();
    CHECK(output.next_page(&next));
    CHECK(output.page() == 0x200000 && next == 0x201000);
    fill(traced, 5000);
    CHECK(output.next_page(&next));
    CHECK(output.page() == 0x201000 && next == 0x300000);
    fill(traced, 9000);
    CHECK(output.page() == 0x300000 && !output.next_page(&next));
}

}  // namespace
