// SPDX-License-Identifier: BSD-2-Clause
//
// Letters and numbers of cases are those of the SDM's Table 36-50.
#include "pt.h"

#include "msr_index.h"

namespace {

constexpr unsigned RANGE_FILTER = 1;
constexpr unsigned RANGE_STOP = 2;
constexpr uint32_t PSB_LEAST = 2048;  // bytes between two of them with PSBFreq 0

}  // namespace

MsrResult Pt::read_msr(uint32_t index, uint64_t *value) const
{
    return msrs_.read_msr(index, value);
}

MsrResult Pt::write_msr(uint32_t index, uint64_t value, const uint64_t *ip_of_it)
{
    uint64_t old = msrs_.ctl();
    MsrResult result = msrs_.write_msr(index, value);

    if (index != IA32_RTIT_CTL || result != MSR_DONE)
        return result;
    // Cases 3b and 17g.
    if ((old & ~value & RTIT_CTL_TRACEEN) && packet_) {
        prepare();
        if (ip_of_it)
            packets_.ip(PT_FUP, *ip_of_it);
        packets_.no_ip(PT_TIP_PGD);
    }
    load_ctl(value);
    return result;
}

void Pt::load_ctl(uint64_t value)
{
    bool was = enabled(RTIT_CTL_TRACEEN);

    if (was && !(value & RTIT_CTL_TRACEEN))
        stop();
    msrs_.set_ctl(value);
    starting_ = !was && (value & RTIT_CTL_TRACEEN);
}

// Section 2.7.3, "Disabling Packet Generation": all that is buffered is written.
void Pt::stop()
{
    if (trigger_) {
        flush_results();
        write();
    }
    packets_.take();
    msrs_.set_ctl(msrs_.ctl() & ~RTIT_CTL_TRACEEN);
    starting_ = false;
    trigger_ = false;
    packet_ = false;
    event_ = false;
    lost_ = 0;
    msrs_.set_status(RTIT_STATUS_TRIGGEREN, false);
}

// Cases 2a to 2e. A decoder can begin with the PSB alone, so it comes first.
void Pt::start(uint64_t ip_of_next)
{
    starting_ = false;
    // Section 2.5.2.
    if (msrs_.status(RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED))
        return;
    if (output_.begin() == PT_OUTPUT_ERROR) {
        msrs_.set_status(RTIT_STATUS_ERROR, true);
        return;
    }
    PtContext now = processor_.context();
    packets_.forget_ip();
    returns_.clear();
    result_count_ = 0;
    exec_known_ = false;
    event_ = false;
    cr3_ = now.cr3;
    trigger_ = true;
    filter_ = true;
    time_.begin(processor_.now());
    msrs_.set_status(RTIT_STATUS_TRIGGEREN, true);
    bool stops = evaluate(now, ip_of_next);
    bool goes_on = packet_;
    packet_ = false;
    if (msrs_.byte_count() == 0)
        psb(now, ip_of_next);
    else
        time_.status(processor_.now());
    packet_ = goes_on;
    if (packet_) {
        exec(now);
        ip(PT_TIP_PGE, ip_of_next);
    }
    if (stops)
        packets_.trace_stop();
    complete(ip_of_next);
    if (stops)
        stopped();
}

// Section 2.5.3.
bool Pt::in_context(const PtContext &context) const
{
    uint64_t ignored = context.pae ? 0x1f : 0xfff;

    if (!enabled(context.cpl == 0 ? RTIT_CTL_OS : RTIT_CTL_USER))
        return false;
    return !enabled(RTIT_CTL_CR3FILTER) || ((context.cr3 ^ msrs_.cr3_match()) & ~ignored) == 0;
}

// Section 2.4.3: both ends are in the range.
bool Pt::in_ranges(uint64_t ip, unsigned use, bool *any) const
{
    bool in = false;

    *any = false;
    for (unsigned n = 0; n < PT_RANGES; n++) {
        if (msrs_.range_use(n) != use)
            continue;
        *any = true;
        in |= ip >= msrs_.range_begin(n) && ip <= msrs_.range_end(n);
    }
    return in;
}

// Sections 2.5.1 to 2.5.5. FilterEn moves in context alone.
bool Pt::evaluate(const PtContext &context, uint64_t ip)
{
    bool any, stops = false;

    context_ = in_context(context);
    if (context_) {
        bool in = in_ranges(ip, RANGE_FILTER, &any);
        filter_ = in || !any;
        stops = in_ranges(ip, RANGE_STOP, &any);
        // Section 4.2.9: it forces FilterEn to 0.
        filter_ &= !stops;
    }
    packet_ = context_ && filter_ && enabled(RTIT_CTL_BRANCHEN);
    msrs_.set_status(RTIT_STATUS_CONTEXTEN, context_);
    msrs_.set_status(RTIT_STATUS_FILTEREN, filter_);
    return stops;
}

// Section 4.2.9.
void Pt::stopped()
{
    trigger_ = false;
    packet_ = false;
    msrs_.set_status(RTIT_STATUS_STOPPED, true);
    msrs_.set_status(RTIT_STATUS_TRIGGEREN, false);
}

// Control goes to `to`, from `from` where the decoder cannot know that: cases 6 to 13 and 16 to 17.
void Pt::transfer(Sends sends, const uint64_t *from, uint64_t to, bool near)
{
    PtContext now = processor_.context();
    bool before = packet_;
    bool stops = evaluate(now, to);
    bool after = packet_;

    packet_ = before;
    if (before && from)
        ip(PT_FUP, *from);
    if (now.cr3 != cr3_)
        pip(now);
    if (before && !after) {
        prepare();
        returns_.clear();
        // A conditional branch's target is clear; one that is out of context is hidden.
        if (!context_ || sends == SENDS_TNT)
            packets_.no_ip(PT_TIP_PGD);
        else
            packets_.ip(PT_TIP_PGD, to);
    } else if (before && sends == SENDS_TNT) {
        result(true);
    } else if (before && sends == SENDS_TIP) {
        if (!near)
            exec(now);
        ip(PT_TIP, to);
    } else if (after && !before) {
        packet_ = true;
        exec(now);
        ip(PT_TIP_PGE, to);
    }
    packet_ = after;
    if (stops) {
        prepare();
        packets_.trace_stop();
    }
    complete(to);
    if (stops)
        stopped();
}

void Pt::conditional(bool taken, uint64_t to)
{
    if (taken) {
        transfer(SENDS_TNT, nullptr, to, true);
    } else if (packet_) {
        // Cases 8a and 8d: FilterEn stays.
        result(false);
        complete(to);
    }
}

void Pt::near(PtBranch kind, uint64_t to, uint64_t next)
{
    // Both stacks see a return, whether its target may be left out or not.
    bool compressed = kind == PT_RETURN && returns_.ret(to) && !enabled(RTIT_CTL_DISRETC);

    // A call that a decoder sees, but those to the next instruction.
    if (next != 0 && packet_ && !(kind == PT_DIRECT && next == to))
        returns_.call(next);
    transfer(kind == PT_DIRECT ? SENDS_NOTHING
             : compressed      ? SENDS_TNT
                               : SENDS_TIP,
             nullptr, to, true);
}

void Pt::far(uint64_t to) { transfer(SENDS_TIP, nullptr, to, false); }

void Pt::software_interrupt(uint64_t from, uint64_t to) { transfer(SENDS_TIP, &from, to, false); }

void Pt::event_from(uint64_t ip)
{
    event_ = true;
    event_from_ = ip;
}

void Pt::event_to(uint64_t ip)
{
    if (!event_)
        return;
    event_ = false;
    transfer(SENDS_TIP, &event_from_, ip, false);
}

// Case 5: the IP is not a branch's, and a TIP.PGD has none.
void Pt::mov_cr3(uint64_t next)
{
    PtContext now = processor_.context();
    bool before = packet_;
    bool stops = evaluate(now, next);
    bool after = packet_;

    packet_ = before;
    pip(now);
    if (before && !after) {
        prepare();
        returns_.clear();
        packets_.no_ip(PT_TIP_PGD);
    } else if (after && !before) {
        packet_ = true;
        exec(now);
        ip(PT_TIP_PGE, next);
    }
    packet_ = after;
    if (stops) {
        prepare();
        packets_.trace_stop();
    }
    complete(next);
    if (stops)
        stopped();
}

// Section 4.2.15.
void Pt::vmptrld(uint64_t address)
{
    if (!context_)
        return;
    prepare();
    packets_.vmcs(address);
    write();
}

// Section 4.2.21.
void Pt::ptwrite(uint64_t value, unsigned bytes, uint64_t ip_of_it)
{
    bool fup = enabled(RTIT_CTL_FUPONPTW);

    if (!context_ || !filter_ || !enabled(RTIT_CTL_PTWEN))
        return;
    prepare();
    packets_.ptw(value, bytes, fup);
    if (fup)
        packets_.ip(PT_FUP, ip_of_it);
    write();
}

// Cases 17: the PIP says non-root, whatever the later ones do.
void Pt::vm_entry(uint64_t ip, bool conceals)
{
    PtContext now = processor_.context();

    cr3_ = now.cr3;
    now.non_root = true;
    if (!conceals && in_context(now))
        pip(now);
    transfer(SENDS_TIP, nullptr, ip, false);
}

// Cases 16. The PIP is of the host's context; where it is off, the guest's trace has none.
void Pt::vm_exit(uint64_t from, uint64_t to, bool conceals, bool clears)
{
    PtContext now = processor_.context();

    event_ = false;
    cr3_ = now.cr3;
    now.non_root = false;
    if (packet_)
        ip(PT_FUP, from);
    if (!conceals && in_context(now))
        pip(now);
    if (!clears) {
        transfer(SENDS_TIP, nullptr, to, false);
        return;
    }
    if (packet_) {
        prepare();
        packets_.no_ip(PT_TIP_PGD);
    }
    load_ctl(0);
}

void Pt::result(bool taken)
{
    unsigned most = enabled(RTIT_CTL_CYCEN) ? PT_TNT_SHORT : PT_TNT_LONG;
    PtMoment now = processor_.now();

    // What became due comes before the branch, and after those before it.
    if (time_.due(now))
        prepare();
    if (result_count_ == 0)
        result_cycle_ = now.cycles;
    results_ = results_ << 1 | taken;
    if (++result_count_ == most)
        flush_results();
}

void Pt::flush_results()
{
    if (result_count_ == 0)
        return;
    time_.eligible(result_cycle_);
    packets_.tnt(results_, result_count_);
    results_ = 0;
    result_count_ = 0;
}

void Pt::prepare()
{
    PtMoment now = processor_.now();

    flush_results();
    time_.catch_up(now);
    time_.eligible(now.cycles);
}

// Section 4.2.8: before a TIP or a TIP.PGE, if it is not what the last one said.
void Pt::exec(const PtContext &context)
{
    if (exec_known_ && exec_ == context.exec)
        return;
    prepare();
    packets_.mode_exec(context.exec);
    exec_ = context.exec;
    exec_known_ = true;
}

void Pt::ip(PtIpPacket packet, uint64_t ip)
{
    prepare();
    packets_.ip(packet, ip);
}

// Section 4.2.7: depends on TriggerEn, ContextEn and OS.
void Pt::pip(const PtContext &context)
{
    cr3_ = context.cr3;
    if (!in_context(context) || !enabled(RTIT_CTL_OS))
        return;
    prepare();
    packets_.pip(context.cr3, context.pae, context.non_root);
}

// Sections 3.7 and 4.2.17.
void Pt::psb(const PtContext &context, uint64_t ip)
{
    flush_results();
    msrs_.set_byte_count(0);
    returns_.clear();
    packets_.psb();
    time_.status(processor_.now());
    if (context_) {
        if (enabled(RTIT_CTL_OS))
            packets_.pip(context.cr3, context.pae, context.non_root);
        if (context.shows_vmcs)
            packets_.vmcs(context.vmcs);
        if (enabled(RTIT_CTL_BRANCHEN))
            packets_.mode_tsx(false, false);
    }
    exec_known_ = packet_;
    exec_ = context.exec;
    if (packet_) {
        packets_.mode_exec(context.exec);
        packets_.ip(PT_FUP, ip);
    }
    packets_.psbend();
}

void Pt::write()
{
    for (uint8_t byte : packets_.take()) {
        if (!trigger_)
            return;
        PtOutputResult result = output_.put(byte);
        bytes_++;
        msrs_.set_byte_count(msrs_.byte_count() + 1);
        if (result == PT_OUTPUT_GOES_ON)
            continue;
        // Section 2.6.2, "ToPA STOP": no TIP.PGD, and what is left is lost.
        stopped();
        if (result == PT_OUTPUT_ERROR) {
            msrs_.set_status(RTIT_STATUS_STOPPED, false);
            msrs_.set_status(RTIT_STATUS_ERROR, true);
        }
        result_count_ = 0;
    }
}

// Section 3.8. What follows an overflow is compressed against nothing before it.
bool Pt::overflows(uint64_t ip)
{
    if (overflow_every_ == 0)
        return false;
    if (lost_ == 0 && bytes_ - overflowed_at_ < overflow_every_)
        return false;
    packets_.take();
    result_count_ = 0;
    if (lost_ == 0)
        lost_ = overflow_branches_;
    if (--lost_ != 0)
        return true;
    overflowed_at_ = bytes_;
    returns_.clear();
    exec_known_ = false;
    packets_.ovf();
    packets_.forget_ip();
    if (packet_)
        packets_.ip(PT_FUP, ip);
    return false;
}

void Pt::complete(uint64_t ip)
{
    if (overflows(ip))
        return;
    write();
    if (!trigger_ || msrs_.byte_count() < PSB_LEAST << msrs_.field(RTIT_CTL_PSBFREQ_SHIFT))
        return;
    psb(processor_.context(), ip);
    write();
}
