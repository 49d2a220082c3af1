// SPDX-License-Identifier: BSD-2-Clause
//
// Each packet of Intel PT, byte by byte as the SDM's tables have them, and IP compression. SDM
// Vol. 3, "Intel Processor Trace", "Trace Packets and Data Types".
#include "check.h"
#include "pt_memory.h"

namespace {

template<typename Make> Bytes made(Make make)
{
    PtPackets packets;
    make(packets);
    return packets.take();
}

#define CHECK_PACKET(call, ...)                                                                    \
    CHECK_EQUAL(hex(made([](PtPackets &p) { call; })), hex(Bytes{__VA_ARGS__}))

TEST(pt_packets_without_an_ip)
{
    CHECK_PACKET(p.pad(), 0);
    CHECK_PACKET(p.psb(), 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82);
    CHECK_PACKET(p.psbend(), 2, 0x23);
    CHECK_PACKET(p.ovf(), 2, 0xf3);
    CHECK_PACKET(p.trace_stop(), 2, 0x83);
    CHECK_PACKET(p.cbr(35), 2, 3, 35, 0);
    CHECK_PACKET(p.tsc(0x1122334455667788), 0x19, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22);
    CHECK_PACKET(p.tma(0x1234, 0x1ab), 2, 0x73, 0x34, 0x12, 0, 0xab, 1);
    CHECK_PACKET(p.mtc(0x42), 0x59, 0x42);
    CHECK_PACKET(p.cyc(31), 0xfb);
    CHECK_PACKET(p.cyc(32), 0x07, 2);
    CHECK_PACKET(p.cyc(4096), 0x07, 1, 2);
    CHECK_PACKET(p.pip(0x123456789fff, false, true), 2, 0x43, 1, 0x89, 0x67, 0x45, 0x23, 1);
    CHECK_PACKET(p.pip(0x1fe0, true, false), 2, 0x43, 0xfe, 1, 0, 0, 0, 0);
    CHECK_PACKET(p.vmcs(0x123456789000), 2, 0xc8, 0x89, 0x67, 0x45, 0x23, 1);
    CHECK_PACKET(p.vmcs(PT_NO_VMCS), 2, 0xc8, 0xff, 0xff, 0xff, 0xff, 0xff);
    CHECK_PACKET(p.mode_exec(PtExec()), 0x99, 1);
    CHECK_PACKET(p.mode_tsx(true, false), 0x99, 0x21);
    CHECK_PACKET(p.ptw(0x11223344, 4, false), 2, 0x12, 0x44, 0x33, 0x22, 0x11);
    CHECK_PACKET(p.ptw(1, 8, true), 2, 0xb2, 1, 0, 0, 0, 0, 0, 0, 0);
}

TEST(pt_results_short_and_long)
{
    CHECK_PACKET(p.tnt(1, 1), 0x06);
    CHECK_PACKET(p.tnt(0x2a, 6), 0xd4);
    CHECK_PACKET(p.tnt(0x5, 7), 0x84, 0x06);  // six 000010, then one
    CHECK_PACKET(p.tnt((uint64_t{1} << 47) - 2, 47), 2, 0xa3, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff);
}

TEST(pt_ip_compression)
{
    PtPackets packets;
    packets.ip(PT_TIP, 0x401000);
    CHECK_EQUAL(hex(packets.take()), hex(Bytes{0x4d, 0x00, 0x10, 0x40, 0x00}));
    packets.ip(PT_FUP, 0x40ffff);
    CHECK_EQUAL(hex(packets.take()), hex(Bytes{0x3d, 0xff, 0xff}));
    packets.ip(PT_TIP_PGE, 0xffffffff81000000);
    CHECK_EQUAL(hex(packets.take()), hex(Bytes{0x71, 0, 0, 0, 0x81, 0xff, 0xff}));
    packets.no_ip(PT_TIP_PGD);
    CHECK_EQUAL(hex(packets.take()), hex(Bytes{0x01}));
    packets.ip(PT_TIP_PGD, 0xffffffff81000010);
    CHECK_EQUAL(hex(packets.take()), hex(Bytes{0x21, 0x10, 0}));
    packets.ip(PT_TIP, 0xff00000000401000);
    CHECK_EQUAL(hex(packets.take()), hex(Bytes{0xcd, 0, 0x10, 0x40, 0, 0, 0, 0, 0xff}));
    packets.ip(PT_TIP, 0xff00123400401000);
    CHECK_EQUAL(hex(packets.take()), hex(Bytes{0x8d, 0, 0x10, 0x40, 0, 0x34, 0x12}));
    packets.forget_ip();
    packets.ip(PT_TIP, 0xff00123400401000);
    CHECK_EQUAL(hex(packets.take()), hex(Bytes{0xcd, 0, 0x10, 0x40, 0, 0x34, 0x12, 0, 0xff}));
    packets.psb();
    packets.take();
    packets.ip(PT_FUP, 0x10);
    CHECK_EQUAL(hex(packets.take()), hex(Bytes{0x3d, 0x10, 0}));
}

}  // namespace
