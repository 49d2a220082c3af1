// SPDX-License-Identifier: BSD-2-Clause
//
// Which packets what the processor does sends, in their order: the cases of the SDM's Table 36-50,
// the filters, PSB+, TraceStop, overflow, PTWRITE, VM entries and exits. The decoder's witness is
// test_pt_libipt.cc.
#include "pt_memory.h"

namespace {

constexpr uint64_t OS = bit(2), USER = bit(3), BRANCHEN = bit(13);
constexpr uint64_t HERE = 0x401000, THERE = 0x402000, KERNEL = 0xffffffff81000000;
constexpr uint64_t STOPPED = bit(5), FILTEREN = bit(0), CONTEXTEN = bit(1);

// A trace that has begun, with its first packets taken.
struct Begun : Traced {
    explicit Begun(uint64_t ctl, const std::map<uint32_t, uint64_t> &msrs = {}, uint64_t at = HERE)
    {
        for (auto [index, value] : msrs)
            set(index, value);
        start(ctl, at);
        take();
    }
};

#define CHECK_TRACE(traced, ...) CHECK_EQUAL(hex((traced).take()), hex(Bytes{__VA_ARGS__}))

TEST(pt_begins_with_psb_once)
{
    Traced traced;
    Bytes psb;
    traced.start(USER | BRANCHEN, HERE);
    for (unsigned n = 0; n < 8; n++)
        psb.insert(psb.end(), {2, 0x82});
    // CBR, MODE.TSX, PSBEND; MODE.Exec, TIP.PGE. No PIP, for that is of OS.
    psb.insert(psb.end(), {2, 3, 35, 0, 0x99, 0x20, 2, 0x23, 0x99, 1, 0x51, 0, 0x10, 0x40, 0});
    CHECK_EQUAL(hex(traced.take()), hex(psb));
    CHECK_EQUAL(traced.get(IA32_RTIT_STATUS) >> 32, psb.size());
    traced.stop(THERE);
    CHECK_TRACE(traced, 0x3d, 0, 0x20, 0x01);
    // PacketByteCnt is not 0: no PSB, and an IP in full.
    traced.start(USER | BRANCHEN, THERE);
    CHECK_TRACE(traced, 2, 3, 35, 0, 0x99, 1, 0x71, 0, 0x20, 0x40, 0, 0, 0);
}

TEST(pt_branches)
{
    Begun traced(USER | BRANCHEN);
    traced.pt.near(PT_DIRECT, THERE, 0);
    traced.pt.conditional(true, HERE);
    traced.pt.conditional(false, HERE + 2);
    CHECK_TRACE(traced);
    traced.pt.near(PT_INDIRECT, THERE, 0);
    CHECK_TRACE(traced, 0x0c, 0x2d, 0, 0x20);
    for (unsigned n = 0; n < 46; n++)
        traced.pt.conditional(true, HERE);
    CHECK_TRACE(traced);
    traced.pt.conditional(false, HERE);
    CHECK_TRACE(traced, 2, 0xa3, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff);
}

TEST(pt_returns)
{
    Begun traced(USER | BRANCHEN);
    traced.pt.near(PT_DIRECT, THERE, HERE + 5);
    traced.pt.near(PT_RETURN, HERE + 5, 0);
    traced.pt.near(PT_DIRECT, THERE, HERE + 10);
    traced.pt.near(PT_RETURN, HERE + 11, 0);
    CHECK_TRACE(traced, 0x06, 0x2d, 0x0b, 0x10);
    // A call to the next instruction is none.
    traced.pt.near(PT_DIRECT, HERE + 20, HERE + 20);
    traced.pt.near(PT_RETURN, HERE + 20, 0);
    CHECK_TRACE(traced, 0x2d, 0x14, 0x10);
    Begun without(USER | BRANCHEN | bit(11));
    without.pt.near(PT_DIRECT, THERE, HERE + 5);
    without.pt.near(PT_RETURN, HERE + 5, 0);
    CHECK_TRACE(without, 0x2d, 5, 0x10);
    // The 65th call pushes the first one out.
    Begun deep(USER | BRANCHEN);
    for (unsigned n = 0; n < 65; n++)
        deep.pt.near(PT_DIRECT, THERE, HERE + 5 * n);
    for (unsigned n = 64; n > 0; n--)
        deep.pt.near(PT_RETURN, HERE + 5 * n, 0);
    CHECK_TRACE(deep, 2, 0xa3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
    deep.pt.near(PT_RETURN, HERE, 0);
    Bytes rest = deep.take();
    CHECK_EQUAL(rest.size(), 3u + 3u);  // 17 results in three, TIP
    CHECK_EQUAL(rest[3], 0x2du);
}

TEST(pt_user_mode_alone)
{
    Begun traced(USER | BRANCHEN);
    traced.processor.state.cpl = 0;
    traced.pt.far(KERNEL);  // SYSCALL, case 10c
    CHECK_TRACE(traced, 0x01);
    CHECK_EQUAL(traced.get(IA32_RTIT_STATUS) & CONTEXTEN, 0u);
    traced.pt.near(PT_INDIRECT, KERNEL + 64, 0);
    traced.pt.event_from(KERNEL + 64);
    traced.pt.event_to(KERNEL + 128);
    traced.pt.mov_cr3(KERNEL);
    CHECK_TRACE(traced);
    traced.processor.state.cpl = 3;
    traced.pt.far(HERE + 2);  // SYSRET, case 10b
    CHECK_TRACE(traced, 0x31, 2, 0x10);
    traced.processor.state.cpl = 0;
    traced.pt.event_from(HERE + 7);  // an interrupt, case 11c
    traced.pt.event_to(KERNEL);
    CHECK_TRACE(traced, 0x3d, 7, 0x10, 0x01);
}

TEST(pt_events)
{
    Begun traced(OS | USER | BRANCHEN);
    traced.processor.state.cpl = 0;
    traced.pt.event_from(HERE + 7);
    traced.pt.event_to(KERNEL);
    CHECK_TRACE(traced, 0x3d, 7, 0x10, 0x6d, 0, 0, 0, 0x81, 0xff, 0xff);
    traced.pt.software_interrupt(KERNEL + 1, KERNEL + 0x100);
    CHECK_TRACE(traced, 0x3d, 1, 0, 0x2d, 0, 1);
    traced.pt.event_from(KERNEL + 2);
    traced.pt.event_cancelled();
    traced.pt.event_to(KERNEL);
    CHECK_TRACE(traced);
    // The mode changes with it.
    traced.processor.state.exec = {false, true};
    traced.pt.far(0x1000);
    CHECK_TRACE(traced, 0x99, 2, 0x6d, 0, 0x10, 0, 0, 0, 0);
}

TEST(pt_cr3)
{
    Begun traced(OS | USER | BRANCHEN | bit(7), {{IA32_RTIT_CR3_MATCH, 0x5000}});
    traced.processor.state.cpl = 0;
    CHECK_EQUAL(traced.get(IA32_RTIT_STATUS) & CONTEXTEN, 0u);
    traced.processor.state.cr3 = 0x5007;  // bits 11:0 do not count, but with PAE paging
    traced.pt.mov_cr3(KERNEL);
    CHECK_TRACE(traced, 2, 0x43, 0, 5, 0, 0, 0, 0, 0x99, 1, 0x71, 0, 0, 0, 0x81, 0xff, 0xff);
    traced.processor.state.cr3 = 0x6000;
    traced.pt.mov_cr3(KERNEL + 3);
    CHECK_TRACE(traced, 0x01);
    traced.processor.state.cr3 = 0x5020;
    traced.processor.state.pae = true;
    traced.pt.mov_cr3(KERNEL + 6);
    CHECK_TRACE(traced);
}

TEST(pt_address_ranges)
{
    Begun traced(USER | BRANCHEN | bit(32), {{0x580, THERE}, {0x581, THERE + 0xff}});
    CHECK_EQUAL(traced.get(IA32_RTIT_STATUS) & (FILTEREN | CONTEXTEN), CONTEXTEN);
    traced.pt.near(PT_INDIRECT, HERE + 4, 0);
    CHECK_TRACE(traced);
    traced.pt.near(PT_DIRECT, THERE, 0);  // case 6c
    CHECK_TRACE(traced, 0x99, 1, 0x51, 0, 0x20, 0x40, 0);
    traced.pt.conditional(false, THERE + 0x200);  // leaves it, and is seen at the next one
    traced.pt.near(PT_DIRECT, THERE + 0xff, 0);
    traced.pt.near(PT_DIRECT, HERE, 0);  // case 6b
    CHECK_TRACE(traced, 0x04, 0x21, 0, 0x10);
    traced.pt.conditional(true, THERE + 8);  // case 7b
    traced.pt.conditional(true, HERE);       // case 7e: no IP, no result
    CHECK_TRACE(traced, 0x31, 8, 0x20, 0x01);
}

TEST(pt_trace_stop)
{
    Begun traced(USER | BRANCHEN | bit(37), {{0x582, THERE}, {0x583, THERE + 0xff}});
    traced.pt.near(PT_DIRECT, HERE + 4, 0);
    traced.pt.near(PT_INDIRECT, THERE + 1, 0);
    CHECK_TRACE(traced, 0x21, 1, 0x20, 2, 0x83);
    CHECK_EQUAL(traced.get(IA32_RTIT_STATUS) & (STOPPED | bit(2) | FILTEREN), STOPPED);
    CHECK(!traced.pt.on());
}

TEST(pt_psb_by_the_bytes)
{
    Begun traced(OS | USER | BRANCHEN);
    traced.pt.near(PT_DIRECT, THERE, HERE + 5);
    // What PSB+ is counts for the next one.
    while (traced.get(IA32_RTIT_STATUS) >> 32 < 2048 - 8)
        traced.pt.near(PT_INDIRECT, traced.pt.bytes() & 1 ? KERNEL : HERE, 0);
    CHECK(hex(traced.take()).find("02 82 02 82") == std::string::npos);
    traced.pt.near(PT_INDIRECT, KERNEL, 0);
    traced.pt.near(PT_INDIRECT, HERE, 0);
    std::string all = hex(traced.take());
    size_t at = all.find("02 82 02 82");
    CHECK(at != std::string::npos);
    // CBR, PIP, MODE.TSX, MODE.Exec, FUP, PSBEND.
    std::string then = all.substr(at + 3 * 16);
    CHECK_EQUAL(then.substr(0, 3 * 16), "02 03 23 00 02 43 00 34 12 00 00 00 99 20 99 01 ");
    CHECK(then.find("02 23 ") != std::string::npos);
    // The call before it does not count.
    traced.pt.near(PT_RETURN, HERE + 5, 0);
    CHECK_TRACE(traced, 0x2d, 5, 0x10);
}

TEST(pt_overflow)
{
    Begun traced(USER | BRANCHEN);
    traced.pt.set_overflow(1, 3);
    traced.pt.near(PT_DIRECT, THERE, HERE + 5);
    traced.pt.near(PT_INDIRECT, THERE, 0);
    CHECK_TRACE(traced);
    traced.pt.near(PT_INDIRECT, HERE, 0);
    CHECK_TRACE(traced, 2, 0xf3, 0x7d, 0, 0x10, 0x40, 0, 0, 0);
}

TEST(pt_without_branches)
{
    Begun traced(OS | USER);
    traced.pt.near(PT_INDIRECT, THERE, 0);
    CHECK_TRACE(traced);
    traced.processor.state.cr3 = 0x5000;
    traced.pt.mov_cr3(THERE);
    CHECK_TRACE(traced, 2, 0x43, 0, 5, 0, 0, 0, 0);
}

TEST(pt_ptwrite)
{
    Traced traced({true, 39, 48});
    traced.start(USER | bit(12) | bit(5) | BRANCHEN, HERE);
    traced.take();
    traced.pt.ptwrite(0x11223344, 4, HERE + 3);
    CHECK_TRACE(traced, 2, 0x92, 0x44, 0x33, 0x22, 0x11, 0x3d, 3, 0x10);
    traced.processor.state.cpl = 0;
    traced.pt.far(KERNEL);
    traced.take();
    traced.pt.ptwrite(1, 8, KERNEL);
    CHECK_TRACE(traced);
}

TEST(pt_vm_entry_and_exit)
{
    Begun traced(OS | BRANCHEN, {}, KERNEL);
    traced.processor.state.cpl = 0;
    traced.pt.far(KERNEL);
    traced.take();
    traced.processor.state.cr3 = 0x7000;
    traced.processor.state.non_root = true;
    traced.pt.vm_entry(HERE, false);
    CHECK_TRACE(traced, 2, 0x43, 1, 7, 0, 0, 0, 0, 0x6d, 0, 0x10, 0x40, 0, 0, 0);
    traced.processor.state.cr3 = 0x8000;
    traced.processor.state.non_root = false;
    traced.pt.vm_exit(HERE + 3, KERNEL, false, false);
    CHECK_TRACE(traced, 0x3d, 3, 0x10, 2, 0x43, 0, 8, 0, 0, 0, 0, 0x6d, 0, 0, 0, 0x81, 0xff, 0xff);
    traced.processor.state.cr3 = 0x7000;
    traced.pt.vm_entry(HERE, true);
    CHECK_TRACE(traced, 0x6d, 0, 0x10, 0x40, 0, 0, 0);
    traced.processor.state.cr3 = 0x8000;
    traced.pt.vm_exit(HERE + 3, KERNEL, true, true);
    CHECK_TRACE(traced, 0x3d, 3, 0x10, 0x01);
    CHECK_EQUAL(traced.get(IA32_RTIT_CTL), 0u);
    CHECK(!traced.pt.on());
}

}  // namespace
