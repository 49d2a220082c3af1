// SPDX-License-Identifier: BSD-2-Clause
//
// The counters' MSRs and their overflow. A WRMSR that starts or writes a counter is counted by it
// and one that stops it is not, for it retires after its write: of the two that start and stop
// counting exactly one is counted, as on processors (README.md, "Where the processor model is not a
// Skylake-SP").
#include "pmu.h"

#include <algorithm>

#include "msr_index.h"

namespace {

constexpr uint64_t STATUS_FREEZES = GLOBAL_STATUS_LBR_FRZ | GLOBAL_STATUS_CTR_FRZ;
constexpr uint64_t STATUS_RESET_VALID = STATUS_FREEZES | GLOBAL_STATUS_TRACE_TOPA_PMI |
                                        GLOBAL_STATUS_OVF_UNCORE | GLOBAL_STATUS_OVF_BUFFER |
                                        GLOBAL_STATUS_COND_CHGD;
constexpr uint64_t STATUS_SET_VALID = STATUS_RESET_VALID & ~GLOBAL_STATUS_COND_CHGD;
constexpr uint64_t CAPABILITIES = PERF_CAP_LBR_FMT_INFO | PERF_CAP_FREEZE_WHILE_SMM |
                                  PERF_CAP_FW_WRITE;

// INST_RETIRED.PREC_DIST, and the general counter that takes it so, before fixed counter 0 did.
constexpr uint64_t PREC_DIST = 0x1c0;
constexpr uint64_t EVENT_AND_UMASK = 0xffff;
constexpr unsigned PREC_DIST_COUNTER = 1;

// RDPMC's ECX: bit 30 chooses the fixed counters.
constexpr uint32_t RDPMC_FIXED = 1u << 30;
// And bit 29 PERF_METRICS.
constexpr uint32_t RDPMC_METRICS = 1u << 29;

// The bit of a counter in GLOBAL_CTRL and its relatives.
unsigned global_bit(unsigned n)
{
    return n < PMU_GENERAL_MAX ? n : n - PMU_GENERAL_MAX + GLOBAL_FIXED_SHIFT;
}

// The counter that an MSR of a block belongs to: `size` counters, `step` MSRs for each.
bool in_block(uint32_t index, uint32_t first, unsigned size, unsigned step, unsigned *n)
{
    if (index < first || (index - first) % step != 0)
        return false;
    *n = (index - first) / step;
    return *n < size;
}

bool needs_streamlined(uint32_t index)
{
    return index == IA32_PERF_GLOBAL_STATUS_SET || index == IA32_PERF_GLOBAL_INUSE;
}

}  // namespace

Pmu::Pmu(EventCounts &events, const PmuShape &shape) : events_(events) { set_shape(shape); }

void Pmu::set_shape(const PmuShape &shape)
{
    shape_ = shape;
    present_.clear();
    for (unsigned n = 0; n < COUNTERS; n++)
        if (n < FIXED ? shape.general >> n & 1 : shape.fixed >> (n - FIXED) & 1)
            present_.push_back(n);
    reset();
}

uint64_t Pmu::global_counters() const
{
    return uint64_t{shape_.fixed} << GLOBAL_FIXED_SHIFT | shape_.general |
           (shape_.metrics ? GLOBAL_PERF_METRICS : 0);
}

uint64_t Pmu::fixed_ctrl_valid() const
{
    uint64_t valid = 0;

    for (unsigned n = 0; n < PMU_FIXED_MAX; n++)
        if (shape_.fixed >> n & 1)
            valid |= (FIXED_CTRL_FIELD | (adaptive() ? FIXED_CTRL_ADAPTIVE : 0) |
                      (user_disable() ? FIXED_CTRL_RDPMC_USER_DISABLE : 0))
                     << n * FIXED_CTRL_BITS;
    return valid;
}

uint64_t Pmu::fixed_field(unsigned n) const
{
    return fixed_ctrl_ >> (n - FIXED) * FIXED_CTRL_BITS & FIXED_CTRL_FIELD;
}

// Version 6 has all counters in a range of their own; those of before are other names for them.
Pmu::Register Pmu::find(uint32_t index, unsigned *n) const
{
    bool ranges = shape_.version >= PMU_VERSION_LEAF_23H;
    Register is = REGISTER_OTHER;
    bool fixed = false;

    if (in_block(index, IA32_PMC0, PMU_GENERAL_LEGACY, 1, n))
        is = REGISTER_LOW_HALF;
    else if (in_block(index, IA32_A_PMC0, PMU_GENERAL_LEGACY, 1, n) ||
             (ranges && in_block(index, IA32_PMC_GP0_CTR, PMU_GENERAL_MAX, IA32_PMC_STEP, n)))
        is = REGISTER_FULL;
    else if (in_block(index, IA32_PERFEVTSEL0, PMU_GENERAL_LEGACY, 1, n) ||
             (ranges && in_block(index, IA32_PMC_GP0_CFG_A, PMU_GENERAL_MAX, IA32_PMC_STEP, n)))
        is = REGISTER_EVTSEL;
    else if (in_block(index, IA32_FIXED_CTR0, PMU_FIXED_MAX, 1, n) ||
             (ranges && in_block(index, IA32_PMC_FX0_CTR, PMU_FIXED_MAX, IA32_PMC_STEP, n))) {
        is = REGISTER_FULL;
        fixed = true;
    }
    if (is == REGISTER_OTHER || !((fixed ? shape_.fixed : shape_.general) >> *n & 1))
        return REGISTER_OTHER;
    if (fixed)
        *n += FIXED;
    return is;
}

void Pmu::reset()
{
    for (Counter &counter : counters_)
        counter = Counter();
    for (uint64_t &evtsel : evtsel_)
        evtsel = 0;
    for (uint64_t &rsp : offcore_rsp_)
        rsp = 0;
    fixed_ctrl_ = shape_.fixed_ctrl;
    metrics_ = 0;
    // All general counters on: what version 1 software expects.
    global_ctrl_ = shape_.general;
    status_ = 0;
    pmi_at_ = PMU_NEVER;
    pebs_ = armed_ = due_ = 0;
    update();
}

bool Pmu::enabled(unsigned n) const
{
    if (!(global_ctrl_ & bit(global_bit(n))) || (status_ & GLOBAL_STATUS_CTR_FRZ))
        return false;
    if (n < FIXED)
        return evtsel_[n] & PERFEVTSEL_EN;
    return fixed_field(n) & (FIXED_CTRL_OS | FIXED_CTRL_USR);
}

bool Pmu::interrupts(unsigned n) const
{
    return n < FIXED ? evtsel_[n] & PERFEVTSEL_INT : fixed_field(n) & FIXED_CTRL_PMI;
}

Selector Pmu::selector(unsigned n) const
{
    return n < FIXED ? selector_of_evtsel(evtsel_[n], offcore_rsp_)
                     : selector_of_fixed(n - FIXED, fixed_field(n));
}

void Pmu::update()
{
    for (unsigned n : present_) {
        Selector wanted = selector(n);
        if (counters_[n].running() && (!(wanted == selectors_[n]) || !enabled(n)))
            counters_[n].stop(now_of(n));
        selectors_[n] = wanted;
        if (!counters_[n].running() && enabled(n))
            counters_[n].start(next_of(n));
    }
}

void Pmu::write_counter(unsigned n, uint64_t value)
{
    counters_[n].write(value, next_of(n));
    armed_ &= ~bit(global_bit(n));
}

uint64_t Pmu::in_use() const
{
    uint64_t value = 0;

    for (unsigned n : present_) {
        bool used = n < FIXED ? (evtsel_[n] & PERFEVTSEL_EVENT) != 0
                              : (fixed_field(n) & (FIXED_CTRL_OS | FIXED_CTRL_USR)) != 0;
        if (used)
            value |= bit(global_bit(n));
        if (interrupts(n))
            value |= GLOBAL_INUSE_PMI;
    }
    return value;
}

void Pmu::set_global_ctrl(uint64_t value)
{
    global_ctrl_ = value;
    update();
}

MsrResult Pmu::read_msr(uint32_t index, uint64_t *value) const
{
    unsigned n;
    Register is = find(index, &n);

    if (is == REGISTER_EVTSEL)
        *value = evtsel_[n];
    else if (is != REGISTER_OTHER)
        *value = counters_[n].read(now_of(n));
    else if (in_block(index, MSR_OFFCORE_RSP_0, OFFCORE_RSPS, 1, &n))
        *value = offcore_rsp_[n];
    else if (index == IA32_FIXED_CTR_CTRL)
        *value = fixed_ctrl_;
    else if (index == MSR_PERF_METRICS && shape_.metrics)
        *value = metrics_;
    else if (index == IA32_PERF_GLOBAL_STATUS)
        *value = status_;
    else if (index == IA32_PERF_GLOBAL_CTRL)
        *value = global_ctrl_;
    else if (index == IA32_PERF_GLOBAL_STATUS_RESET)
        *value = 0;
    else if (!streamlined() && needs_streamlined(index))
        return MSR_ABSENT;
    else if (index == IA32_PERF_GLOBAL_STATUS_SET)
        *value = 0;
    else if (index == IA32_PERF_GLOBAL_INUSE)
        *value = in_use();
    else if (index == IA32_PERF_CAPABILITIES)
        *value = CAPABILITIES | capabilities_ | (shape_.metrics ? PERF_CAP_METRICS : 0);
    else
        return MSR_ABSENT;
    return MSR_DONE;
}

MsrResult Pmu::write_msr(uint32_t index, uint64_t value)
{
    unsigned n;
    uint64_t reserved;
    Register is = find(index, &n);

    if (is == REGISTER_LOW_HALF) {
        // Sign-extended; SDM Vol. 3, "Full-Width Writes to Performance Counters".
        write_counter(n, static_cast<uint64_t>(static_cast<int32_t>(value)));
        return MSR_DONE;
    }
    if (is == REGISTER_FULL)
        reserved = ~COUNTER_MASK;
    else if (is == REGISTER_EVTSEL)
        reserved = ~evtsel_valid();
    else if (in_block(index, MSR_OFFCORE_RSP_0, OFFCORE_RSPS, 1, &n))
        reserved = ~OFFCORE_RSP_VALID;
    else if (index == IA32_FIXED_CTR_CTRL)
        reserved = ~fixed_ctrl_valid();
    else if (index == MSR_PERF_METRICS && shape_.metrics)
        reserved = 0;
    else if (index == IA32_PERF_GLOBAL_CTRL)
        reserved = ~global_counters();
    else if (index == IA32_PERF_GLOBAL_STATUS_RESET)
        reserved = ~(STATUS_RESET_VALID | global_counters()) | (streamlined() ? 0 : STATUS_FREEZES);
    else if (!streamlined() && needs_streamlined(index))
        return MSR_ABSENT;
    else if (index == IA32_PERF_GLOBAL_STATUS_SET)
        reserved = ~(STATUS_SET_VALID | global_counters());
    else if (index == IA32_PERF_GLOBAL_STATUS || index == IA32_PERF_GLOBAL_INUSE ||
             index == IA32_PERF_CAPABILITIES)
        return MSR_FAULT;
    else
        return MSR_ABSENT;
    if (value & reserved)
        return MSR_FAULT;

    if (is == REGISTER_FULL)
        write_counter(n, value);
    else if (is == REGISTER_EVTSEL)
        evtsel_[n] = value;
    else if (in_block(index, MSR_OFFCORE_RSP_0, OFFCORE_RSPS, 1, &n))
        offcore_rsp_[n] = value;
    else if (index == IA32_FIXED_CTR_CTRL)
        fixed_ctrl_ = value;
    else if (index == MSR_PERF_METRICS)
        metrics_ = value;
    else if (index == IA32_PERF_GLOBAL_CTRL)
        global_ctrl_ = value;
    else if (index == IA32_PERF_GLOBAL_STATUS_RESET)
        status_ &= ~value;
    else
        status_ |= value;
    update();
    return MSR_DONE;
}

bool Pmu::adaptive() const { return capabilities_ & PERF_CAP_PEBS_BASELINE; }

// CPUID.23H.0:EBX[2]
bool Pmu::user_disable() const { return shape_.version >= PMU_VERSION_LEAF_23H; }

uint64_t Pmu::evtsel_valid() const
{
    return PERFEVTSEL_VALID | (adaptive() ? PERFEVTSEL_ADAPTIVE : 0) |
           (user_disable() ? PERFEVTSEL_RDPMC_USER_DISABLE : 0);
}

bool Pmu::wants_adaptive(unsigned n) const
{
    if (!adaptive())
        return false;
    return n < FIXED ? evtsel_[n] & PERFEVTSEL_ADAPTIVE
                     : fixed_ctrl_ & FIXED_CTRL_ADAPTIVE << (n - FIXED) * FIXED_CTRL_BITS;
}

// SDM Vol. 3, "Precise Distribution of Instructions Retired (PDIR)".
bool Pmu::precise_distribution(unsigned n) const
{
    if (adaptive())
        return n == FIXED;
    return n == PREC_DIST_COUNTER && (evtsel_[n] & EVENT_AND_UMASK) == PREC_DIST;
}

void Pmu::set_pebs(uint64_t counters) { pebs_ = counters; }

void Pmu::look_armed(unsigned n)
{
    uint64_t own = bit(global_bit(n));
    bool overflow = counters_[n].take_overflow(now_of(n));
    uint64_t value = counters_[n].read(now_of(n));

    if ((armed_ & own) ? value != armed_at_[n] : overflow && precise_distribution(n))
        due_ |= own;
    if (overflow)
        armed_ |= own;
    armed_at_[n] = value;
}

PebsDue Pmu::pebs_due() const
{
    PebsDue due;

    due.counters = due_;
    for (unsigned n : present_)
        if (due_ & bit(global_bit(n))) {
            due.events |= 1u << selectors_[n].event;
            due.adaptive |= wants_adaptive(n);
        }
    return due;
}

void Pmu::pebs_taken()
{
    armed_ &= ~due_;
    due_ = 0;
}

void Pmu::pebs_rearm(uint64_t counters)
{
    armed_ |= counters;
    for (unsigned n : present_)
        if (counters & bit(global_bit(n)))
            armed_at_[n] = counters_[n].read(now_of(n));
}

void Pmu::pebs_reload(unsigned of, uint64_t value)
{
    for (unsigned n : present_)
        if (global_bit(n) == of)
            write_counter(n, value);
}

// SDM Vol. 2, "RDPMC": a counter is there if any of the CPUID leaves says so.
bool Pmu::rdpmc(uint32_t ecx, bool user, uint64_t *value) const
{
    uint32_t n = ecx & ~RDPMC_FIXED;
    bool fixed = ecx & RDPMC_FIXED;

    if (ecx == RDPMC_METRICS && shape_.metrics) {
        *value = metrics_;
        return true;
    }
    if (n >= (fixed ? PMU_FIXED_MAX : PMU_GENERAL_MAX) ||
        !((fixed ? shape_.fixed : shape_.general) >> n & 1))
        return false;
    bool disabled = fixed ? fixed_ctrl_ & FIXED_CTRL_RDPMC_USER_DISABLE << n * FIXED_CTRL_BITS
                          : evtsel_[n] & PERFEVTSEL_RDPMC_USER_DISABLE;
    if (fixed)
        n += FIXED;
    *value = user && disabled ? 0 : counters_[n].read(now_of(n));
    return true;
}

void Pmu::look(uint64_t now)
{
    due_ = 0;
    for (unsigned n : present_) {
        if (!counters_[n].running())
            continue;
        if (pebs_ & bit(global_bit(n))) {
            look_armed(n);
            continue;
        }
        if (!counters_[n].take_overflow(now_of(n)))
            continue;
        status_ |= own_status_ || !interrupts(n) ? bit(global_bit(n)) : overflow_status_;
        if (interrupts(n) && pmi_at_ == PMU_NEVER)
            pmi_at_ = now + next_skid();
    }
}

void Pmu::raise(uint64_t status, uint64_t now)
{
    status_ |= status;
    if (pmi_at_ == PMU_NEVER)
        pmi_at_ = now + next_skid();
}

bool Pmu::take_pmi(uint64_t now)
{
    if (now < pmi_at_)
        return false;
    pmi_at_ = PMU_NEVER;
    return true;
}

// SDM Vol. 3, "Freezing LBR and Performance Counters on PMI": legacy and streamlined.
uint64_t Pmu::on_pmi(uint64_t debugctl)
{
    if (!streamlined()) {
        if (debugctl & DEBUGCTL_FREEZE_PERFMON_ON_PMI)
            set_global_ctrl(0);
        return debugctl & DEBUGCTL_FREEZE_LBRS_ON_PMI ? debugctl & ~DEBUGCTL_LBR : debugctl;
    }
    if (debugctl & DEBUGCTL_FREEZE_PERFMON_ON_PMI)
        status_ |= GLOBAL_STATUS_CTR_FRZ;
    if (debugctl & DEBUGCTL_FREEZE_LBRS_ON_PMI)
        status_ |= GLOBAL_STATUS_LBR_FRZ;
    update();
    return debugctl;
}

bool Pmu::lbr_frozen() const { return status_ & GLOBAL_STATUS_LBR_FRZ; }

uint64_t Pmu::budget(unsigned mode, uint64_t now) const
{
    uint64_t least = pmi_at_ == PMU_NEVER ? PMU_NEVER : pmi_at_ > now ? pmi_at_ - now : 1;

    for (unsigned n : present_) {
        if (!counters_[n].running() || !selectors_[n].takes(mode) ||
            !selectors_[n].per_instruction())
            continue;
        uint64_t left = armed_ & pebs_ & bit(global_bit(n)) ? 1 : counters_[n].left(now_of(n));
        if (left < least)
            least = left;
    }
    return least;
}

uint64_t Pmu::occasions() const
{
    uint64_t least = PMU_NEVER;

    for (unsigned n : present_) {
        unsigned each = selectors_[n].per_occasion();
        if (!counters_[n].running() || each == 0)
            continue;
        // What instructions bring nearer, too, has no room for both.
        uint64_t room = selectors_[n].per_instruction() ? 0
                                                        : (counters_[n].left(now_of(n)) - 1) / each;
        least = std::min(least, room);
    }
    return least;
}

unsigned Pmu::counted() const
{
    unsigned events = 0;

    for (unsigned n : present_)
        if (counters_[n].running())
            events |= 1u << selectors_[n].event;
    return events;
}
