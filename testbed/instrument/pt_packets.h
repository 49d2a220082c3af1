/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The packets of Intel PT as bytes, and the compression of IPs against the last one sent. Which
 * packet comes when is pt.h's. Knows no Bochs. SDM Vol. 3, "Trace Packets and Data Types".
 */
#pragma once

#include <cstdint>
#include <vector>

/* The packets that have an IP, by the low five bits of their header. Sections 4.2.2 to 4.2.6. */
enum PtIpPacket : uint8_t { PT_TIP = 0x0d, PT_TIP_PGE = 0x11, PT_TIP_PGD = 0x01, PT_FUP = 0x1d };

constexpr unsigned PT_TNT_SHORT = 6; /* bits in a packet. Section 4.2.1 */
constexpr unsigned PT_TNT_LONG = 47;

/* The operating mode that MODE.Exec names. Section 4.2.8. */
struct PtExec {
    bool l = true; /* CS.L and IA32_EFER.LMA */
    bool d = false;
    bool operator==(const PtExec &other) const { return l == other.l && d == other.d; }
};

class PtPackets {
public:
    /* What was appended since the last call. */
    std::vector<uint8_t> take();
    bool empty() const { return bytes_.empty(); }

    void pad() { put({0}); }
    /* The last IP is zero after it. */
    void psb();
    void psbend();
    void ovf();
    void trace_stop();
    void cbr(uint8_t ratio);
    void tsc(uint64_t tsc);
    void tma(uint16_t ctc, uint16_t fast_counter);
    void mtc(uint8_t ctc);
    void cyc(uint64_t cycles);
    /* `count` results, 1 to 47, the youngest in bit 0. */
    void tnt(uint64_t results, unsigned count);
    void ip(PtIpPacket packet, uint64_t ip);
    /* Without its payload: the IP is out of context. */
    void no_ip(PtIpPacket packet);
    /* CR3[11:5] is there with PAE paging alone. Section 4.2.7. */
    void pip(uint64_t cr3, bool pae, bool non_root);
    void vmcs(uint64_t address);
    void mode_exec(const PtExec &exec);
    void mode_tsx(bool in_transaction, bool aborted);
    void ptw(uint64_t value, unsigned bytes, bool fup);

    /* The next IP is sent in full: the decoder may not know the last one. */
    void forget_ip() { known_ip_ = false; }

private:
    void put(std::initializer_list<uint8_t> bytes) { bytes_.insert(bytes_.end(), bytes); }
    void number(uint64_t value, unsigned bytes);

    std::vector<uint8_t> bytes_;
    uint64_t last_ip_ = 0;
    bool known_ip_ = true;
};
