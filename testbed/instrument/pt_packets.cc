// SPDX-License-Identifier: BSD-2-Clause
//
// Each packet is as its table in section 4.2 has it; those of two header bytes begin with 02H.
#include "pt_packets.h"

namespace {

constexpr uint8_t EXTENDED = 0x02;
constexpr unsigned PSB_PAIRS = 8;

// IPBytes, and how many bytes of payload. Table 36-18.
struct IpBytes {
    uint8_t code;
    unsigned bytes;
};
constexpr unsigned IPBYTES_SHIFT = 5;
constexpr IpBytes IP_16 = {1, 2};
constexpr IpBytes IP_32 = {2, 4};
constexpr IpBytes IP_48_EXTENDED = {3, 6};
constexpr IpBytes IP_48 = {4, 6};
constexpr IpBytes IP_64 = {6, 8};

IpBytes bytes_of(uint64_t ip, uint64_t last)
{
    uint64_t changed = ip ^ last;

    if (changed >> 16 == 0)
        return IP_16;
    if (changed >> 32 == 0)
        return IP_32;
    if (static_cast<int64_t>(ip << 16) >> 16 == static_cast<int64_t>(ip))
        return IP_48_EXTENDED;
    return changed >> 48 == 0 ? IP_48 : IP_64;
}

}  // namespace

std::vector<uint8_t> PtPackets::take()
{
    std::vector<uint8_t> all;

    all.swap(bytes_);
    return all;
}

void PtPackets::number(uint64_t value, unsigned bytes)
{
    for (unsigned n = 0; n < bytes; n++)
        bytes_.push_back(static_cast<uint8_t>(value >> 8 * n));
}

void PtPackets::psb()
{
    for (unsigned n = 0; n < PSB_PAIRS; n++)
        put({EXTENDED, 0x82});
    last_ip_ = 0;
    known_ip_ = true;
}

void PtPackets::psbend() { put({EXTENDED, 0x23}); }

void PtPackets::ovf() { put({EXTENDED, 0xf3}); }

void PtPackets::trace_stop() { put({EXTENDED, 0x83}); }

void PtPackets::cbr(uint8_t ratio) { put({EXTENDED, 0x03, ratio, 0}); }

void PtPackets::tsc(uint64_t tsc)
{
    put({0x19});
    number(tsc, 7);
}

void PtPackets::tma(uint16_t ctc, uint16_t fast_counter)
{
    put({EXTENDED, 0x73});
    number(ctc, 2);
    put({0});
    number(fast_counter & 0x1ff, 2);
}

void PtPackets::mtc(uint8_t ctc) { put({0x59, ctc}); }

// Five bits in the first byte, seven in each further one; bit 2, and later bit 0, is Exp.
void PtPackets::cyc(uint64_t cycles)
{
    uint64_t rest = cycles >> 5;

    bytes_.push_back(static_cast<uint8_t>((cycles & 0x1f) << 3 | (rest != 0) << 2 | 3));
    while (rest != 0) {
        uint64_t low = rest & 0x7f;
        rest >>= 7;
        bytes_.push_back(static_cast<uint8_t>(low << 1 | (rest != 0)));
    }
}

// A short packet where the results fit, a long one where they fill it, else several short ones: the
// SDM leaves the choice to the processor. The stop bit is above the oldest.
void PtPackets::tnt(uint64_t results, unsigned count)
{
    if (count == PT_TNT_LONG) {
        put({EXTENDED, 0xa3});
        number(results | uint64_t{1} << PT_TNT_LONG, 6);
        return;
    }
    while (count > 0) {
        unsigned now = count < PT_TNT_SHORT ? count : PT_TNT_SHORT;
        count -= now;
        uint64_t bits = results >> count & ((uint64_t{1} << now) - 1);
        bytes_.push_back(static_cast<uint8_t>((bits | uint64_t{1} << now) << 1));
    }
}

void PtPackets::ip(PtIpPacket packet, uint64_t ip)
{
    IpBytes size = bytes_of(ip, last_ip_);

    if (!known_ip_ && size.code != IP_48_EXTENDED.code)
        size = static_cast<int64_t>(ip << 16) >> 16 == static_cast<int64_t>(ip) ? IP_48_EXTENDED
                                                                                : IP_64;
    bytes_.push_back(static_cast<uint8_t>(size.code << IPBYTES_SHIFT | packet));
    number(ip, size.bytes);
    last_ip_ = ip;
    known_ip_ = true;
}

void PtPackets::no_ip(PtIpPacket packet) { bytes_.push_back(packet); }

void PtPackets::pip(uint64_t cr3, bool pae, bool non_root)
{
    uint64_t address = cr3 & (pae ? 0xfffffffffffe0 : 0xffffffffff000);

    put({EXTENDED, 0x43});
    number(address >> 5 << 1 | non_root, 6);
}

void PtPackets::vmcs(uint64_t address)
{
    put({EXTENDED, 0xc8});
    number(address >> 12, 5);
}

void PtPackets::mode_exec(const PtExec &exec)
{
    put({0x99, static_cast<uint8_t>(exec.d << 1 | exec.l)});
}

void PtPackets::mode_tsx(bool in_transaction, bool aborted)
{
    put({0x99, static_cast<uint8_t>(0x20 | aborted << 1 | in_transaction)});
}

void PtPackets::ptw(uint64_t value, unsigned bytes, bool fup)
{
    put({EXTENDED, static_cast<uint8_t>(fup << 7 | (bytes == 8) << 5 | 0x12)});
    number(value, bytes);
}
