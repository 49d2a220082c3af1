/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Intel PT of one processor: from what the processor does, by what its registers enable, to packets
 * in the order of the SDM's table "Packet Generation under Different Enable Conditions", and on to
 * the output. Each packet is written at once. Knows no Bochs. SDM Vol. 3, "Intel Processor Trace".
 */
#pragma once

#include <cstdint>

#include "pt_msrs.h"
#include "pt_output.h"
#include "pt_packets.h"
#include "pt_returns.h"
#include "pt_time.h"

constexpr uint64_t PT_NO_VMCS = ~uint64_t{0};

/* The processor as the next instruction will find it. */
struct PtContext {
    unsigned cpl = 0;
    uint64_t cr3 = 0;
    bool pae = false; /* PAE paging */
    PtExec exec;
    bool non_root = false;   /* PIPs say so: section 5.1 */
    bool shows_vmcs = false; /* PSB+ has a VMCS packet: section 3.7 */
    uint64_t vmcs = PT_NO_VMCS;
};

class PtProcessor {
public:
    virtual ~PtProcessor() = default;
    virtual PtContext context() = 0;
    virtual PtMoment now() = 0;
};

/* Near branches, by what they send. */
enum PtBranch { PT_DIRECT, PT_INDIRECT, PT_RETURN };

class Pt {
public:
    Pt(PtProcessor &processor, PtMemory &memory, const PtShape &shape, const PtCrystal &crystal,
       uint8_t ratio)
        : processor_(processor), msrs_(shape), time_(msrs_, packets_, crystal, ratio),
          output_(msrs_, memory, shape)
    {
    }

    /* A warm reset, which leaves all but TraceEn. Section 2.7.1. */
    void reset() { stop(); }

    MsrResult read_msr(uint32_t index, uint64_t *value) const;
    /* IA32_RTIT_CTL by the instruction at ip, or by an MSR list of VMX: null. */
    MsrResult write_msr(uint32_t index, uint64_t value, const uint64_t *ip);
    bool ctl_valid(uint64_t value) const { return msrs_.ctl_valid(value); }
    uint64_t ctl() const { return msrs_.ctl(); }
    /* As a VM entry or exit sets it, with no instruction that writes it. */
    void load_ctl(uint64_t value);

    /* TraceEn was set, and start() has to come before the next instruction, which is at ip. */
    bool starting() const { return starting_; }
    void start(uint64_t ip);
    /* Packets may come: what the processor does has to be told. */
    bool on() const { return trigger_; }

    /* What is complete. A near branch that is a call has `next`, the instruction after it, and 0
     * otherwise. */
    void conditional(bool taken, uint64_t to);
    void near(PtBranch kind, uint64_t to, uint64_t next);
    void far(uint64_t to);
    /* INT n and the like: SDM Table 36-23 has the instruction's own IP. */
    void software_interrupt(uint64_t from, uint64_t to);
    /* An event is delivered: where it interrupts, then its handler; cancelled by a VM exit. */
    void event_from(uint64_t ip);
    void event_to(uint64_t ip);
    void event_cancelled() { event_ = false; }
    void mov_cr3(uint64_t next);
    void vmptrld(uint64_t address);
    void ptwrite(uint64_t value, unsigned bytes, uint64_t ip);
    /* A VM entry to `ip`. `conceals`: no PIP. */
    void vm_entry(uint64_t ip, bool conceals);
    /* A VM exit from `from` to `to`. `clears`: IA32_RTIT_CTL is 0 after it. */
    void vm_exit(uint64_t from, uint64_t to, bool conceals, bool clears);
    /* After so many bytes the packets of so many branches are lost: section 3.8. 0: never. */
    void set_overflow(uint64_t every, unsigned branches)
    {
        overflow_every_ = every;
        overflow_branches_ = branches;
    }

    PtOutput &output() { return output_; }
    uint64_t bytes() const { return bytes_; }

private:
    /* What a transfer sends while PacketEn stays. */
    enum Sends { SENDS_NOTHING, SENDS_TNT, SENDS_TIP };

    bool enabled(uint64_t ctl) const { return (msrs_.ctl() & ctl) != 0; }
    bool in_context(const PtContext &context) const;
    bool in_ranges(uint64_t ip, unsigned use, bool *any) const;
    /* Evaluates the enables at `ip`. True: a TraceStop range begins to take effect. */
    bool evaluate(const PtContext &context, uint64_t ip);
    void transfer(Sends sends, const uint64_t *from, uint64_t to, bool near);
    void set_packet_en(bool on);
    void stop();
    void stopped();

    void result(bool taken);
    void flush_results();
    /* Before any packet but TNT. */
    void prepare();
    void exec(const PtContext &context);
    void ip(PtIpPacket packet, uint64_t ip);
    void pip(const PtContext &context);
    void psb(const PtContext &context, uint64_t ip);
    void write();
    /* What was under way is complete: writes it, and a PSB where it is time. */
    void complete(uint64_t ip);
    /* The packets at hand are lost. */
    bool overflows(uint64_t ip);

    PtProcessor &processor_;
    PtMsrs msrs_;
    PtPackets packets_;
    PtTime time_;
    PtOutput output_;
    PtReturns returns_;

    bool starting_ = false;
    bool trigger_ = false;
    bool context_ = false;
    bool filter_ = false;
    bool packet_ = false;
    uint64_t cr3_ = 0;
    bool event_ = false;
    uint64_t event_from_ = 0;
    bool exec_known_ = false;
    PtExec exec_;
    uint64_t results_ = 0;
    unsigned result_count_ = 0;
    uint64_t result_cycle_ = 0; /* of the oldest */
    uint64_t bytes_ = 0;
    uint64_t overflow_every_ = 0;
    unsigned overflow_branches_ = 0;
    uint64_t overflowed_at_ = 0;
    unsigned lost_ = 0;
};
