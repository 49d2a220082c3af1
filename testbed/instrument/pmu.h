/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The performance monitoring unit of one processor: architectural version 4 with 4 general and 3
 * fixed counters, unless told otherwise. Holds its MSRs; knows neither Bochs nor the APIC, it asks
 * for a PMI through a flag. SDM Vol. 3, "Performance Monitoring".
 */
#pragma once

#include <cstdint>
#include <vector>

#include "counter.h"
#include "events.h"

enum MsrResult {
    MSR_ABSENT, /* not one of these */
    MSR_FAULT,  /* #GP(0) */
    MSR_DONE
};

/* The most counters that a processor may have. General ones from this number on have no MSRs
 * below 0x1900: SDM Vol. 4, "Architectural MSRs" ends with IA32_PMC9. */
constexpr unsigned PMU_GENERAL_MAX = 16;
constexpr unsigned PMU_GENERAL_LEGACY = 10;
constexpr unsigned PMU_FIXED_MAX = 16;
constexpr unsigned PMU_VERSION_LEAST = 3;
constexpr unsigned PMU_VERSION_STREAMLINED =
    4;                                         /* freezes by GLOBAL_STATUS, and its SET and INUSE */
constexpr unsigned PMU_VERSION_FIXED_MASK = 5; /* CPUID.0AH:ECX */
constexpr unsigned PMU_VERSION_LEAF_23H = 6;
constexpr uint64_t PMU_NEVER = ~uint64_t{0};

/* What shows in GLOBAL_STATUS that something else than a counter has asked for a PMI: the buffers
 * of Processor Trace and PEBS, and the uncore. */
constexpr uint64_t PMU_OTHER_PMIS = uint64_t{1} << 55 | uint64_t{1} << 61 | uint64_t{1} << 62;

/* What the processor has. */
struct PmuShape {
    unsigned version = PMU_VERSION_STREAMLINED;
    uint32_t general = 0xf; /* a bit for each counter */
    uint32_t fixed = 0x7;
    uint32_t fixed_ctrl = 0; /* IA32_FIXED_CTR_CTRL after reset: as if firmware had left it */
    bool metrics = false;    /* there is MSR_PERF_METRICS, which is mere storage */
};

/* Counters with a PEBS record due after an instruction. */
struct PebsDue {
    uint64_t counters = 0; /* their bits in IA32_PERF_GLOBAL_CTRL */
    unsigned events = 0;   /* a bit for each Event that they count */
    bool adaptive = false; /* one of them asks for an adaptive record */
};

class Pmu {
public:
    explicit Pmu(EventCounts &events, const PmuShape &shape = PmuShape());

    /* It is another one, as after power-on. */
    void set_shape(const PmuShape &shape);

    /* Power-on and RESET values. */
    void reset();

    /* Instructions from the overflow to the PMI; 0 is right after the instruction. */
    void set_skid(unsigned skid) { skid_ = skid; }
    /* Instead: 0 for the first PMI, 1 for the next, and from 0 again after skids - 1. */
    void sweep_skid(unsigned skids) { skids_ = skids; }

    /* Bits of GLOBAL_STATUS that an overflow sets in place of the counter's own, from now on. */
    void set_overflow_status(uint64_t bits)
    {
        own_status_ = false;
        overflow_status_ = bits;
    }
    /* Something else than a counter wants a PMI, `now` as in look(), and shows it by these bits. */
    void raise(uint64_t status, uint64_t now);

    /* Further bits of IA32_PERF_CAPABILITIES. */
    void set_capabilities(uint64_t bits) { capabilities_ = bits; }

    /* The counters that PEBS samples. Their overflow sets no bit of GLOBAL_STATUS and raises no
     * PMI: it arms the counter, and the record is of the next instruction with an event of its.
     * With precise distribution the record is of the one that overflowed. */
    void set_pebs(uint64_t counters);
    /* Those whose record the last look() has found due. */
    PebsDue pebs_due() const;
    /* Their record is taken: they are armed no more. */
    void pebs_taken();
    /* A record that was taken has come to nothing: the next event has one. */
    void pebs_rearm(uint64_t counters);
    /* The counter with that bit goes on from the value in the save area. */
    void pebs_reload(unsigned global_bit, uint64_t value);

    MsrResult read_msr(uint32_t index, uint64_t *value) const;
    MsrResult write_msr(uint32_t index, uint64_t value);

    /* RDPMC's result for ECX, at CPL 0 or above; false is #GP(0). */
    bool rdpmc(uint32_t ecx, bool user, uint64_t *value) const;

    bool global_ctrl_valid(uint64_t value) const { return !(value & ~global_counters()); }
    uint64_t global_ctrl() const { return global_ctrl_; }
    void set_global_ctrl(uint64_t value);

    /* Looks for overflows. `now` is the count of instructions in all modes. */
    void look(uint64_t now);
    /* True once for each PMI that has become due. */
    bool take_pmi(uint64_t now);
    /* The PMI is on its way: freezes what DEBUGCTL says, and gives its new value. */
    uint64_t on_pmi(uint64_t debugctl);

    bool lbr_frozen() const;
    /* Instructions in `mode` that may run before look() or take_pmi() has to; and how often, until
     * then, events may happen that are not of every instruction. */
    uint64_t budget(unsigned mode, uint64_t now) const;
    uint64_t occasions() const;
    /* The events that counters take, a bit for each. */
    unsigned counted() const;

private:
    /* Numbers of counters in here: the general ones first, the fixed ones from FIXED on. */
    static constexpr unsigned FIXED = PMU_GENERAL_MAX;
    static constexpr unsigned COUNTERS = PMU_GENERAL_MAX + PMU_FIXED_MAX;
    /* What an MSR is, as far as it belongs to one counter. */
    enum Register { REGISTER_OTHER, REGISTER_LOW_HALF, REGISTER_FULL, REGISTER_EVTSEL };

    Register find(uint32_t index, unsigned *n) const;
    uint64_t global_counters() const; /* and PERF_METRICS */
    uint64_t fixed_ctrl_valid() const;
    uint64_t evtsel_valid() const;
    bool user_disable() const;
    bool adaptive() const;
    /* A record of this counter's is of the instruction that overflows. */
    bool precise_distribution(unsigned n) const;
    bool wants_adaptive(unsigned n) const;
    void look_armed(unsigned n);
    /* The four control bits of a fixed counter, by its number in here. */
    uint64_t fixed_field(unsigned n) const;
    bool streamlined() const { return shape_.version >= PMU_VERSION_STREAMLINED; }
    bool enabled(unsigned n) const;
    bool interrupts(unsigned n) const;
    Selector selector(unsigned n) const;
    /* Brings the counters in line with the control registers. */
    void update();
    uint64_t now_of(unsigned n) const { return events_.count(selectors_[n]); }
    uint64_t next_of(unsigned n) const { return now_of(n) + events_.pending(selectors_[n]); }
    void write_counter(unsigned n, uint64_t value);
    uint64_t in_use() const;
    unsigned next_skid() { return skids_ == 0 ? skid_ : pmis_++ % skids_; }

    EventCounts &events_;
    PmuShape shape_;
    std::vector<unsigned> present_;
    Counter counters_[COUNTERS];
    Selector selectors_[COUNTERS];
    uint64_t evtsel_[PMU_GENERAL_MAX] = {};
    uint64_t offcore_rsp_[OFFCORE_RSPS] = {};
    uint64_t fixed_ctrl_ = 0;
    uint64_t metrics_ = 0;
    uint64_t global_ctrl_ = 0;
    uint64_t status_ = 0;
    bool own_status_ = true;
    uint64_t overflow_status_ = 0; /* unless own_status_ */
    uint64_t pmi_at_ = PMU_NEVER;
    unsigned skid_ = 0;
    unsigned skids_ = 0; /* 0: all have skid_ */
    unsigned pmis_ = 0;
    uint64_t capabilities_ = 0;
    /* PEBS, by bits of GLOBAL_CTRL: sampled, overflowed and waiting, found due. */
    uint64_t pebs_ = 0;
    uint64_t armed_ = 0;
    uint64_t due_ = 0;
    uint64_t armed_at_[COUNTERS] = {}; /* the counter's value then */
};
