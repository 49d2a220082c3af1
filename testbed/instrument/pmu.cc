// SPDX-License-Identifier: BSD-2-Clause
//
// The counters' MSRs and their overflow. An instruction that starts, stops or writes a counter is
// not counted itself; SDM Vol. 3, "Performance Monitoring", leaves that open.
#include "pmu.h"

#include "msr_index.h"

namespace {

constexpr uint64_t GLOBAL_COUNTERS =
    (bit(PMU_GENERAL) - 1) | (bit(PMU_FIXED) - 1) << GLOBAL_FIXED_SHIFT;
constexpr uint64_t FIXED_CTRL_VALID = bit(PMU_FIXED * FIXED_CTRL_BITS) - 1;
constexpr uint64_t STATUS_RESET_VALID =
    GLOBAL_COUNTERS | GLOBAL_STATUS_LBR_FRZ | GLOBAL_STATUS_CTR_FRZ | GLOBAL_STATUS_OVF_UNCORE |
    GLOBAL_STATUS_OVF_BUFFER | GLOBAL_STATUS_COND_CHGD;
constexpr uint64_t STATUS_SET_VALID = STATUS_RESET_VALID & ~GLOBAL_STATUS_COND_CHGD;
constexpr uint64_t CAPABILITIES =
    PERF_CAP_LBR_FMT_INFO | PERF_CAP_FREEZE_WHILE_SMM | PERF_CAP_FW_WRITE;

// RDPMC's ECX: bit 30 chooses the fixed counters.
constexpr uint32_t RDPMC_FIXED = 1u << 30;

unsigned global_bit(unsigned n)
{
    return n < PMU_GENERAL ? n : n - PMU_GENERAL + GLOBAL_FIXED_SHIFT;
}

// The counter that an MSR of a block of `size` from `first` on belongs to.
bool in_block(uint32_t index, uint32_t first, unsigned size, unsigned *n)
{
    *n = index - first;
    return index >= first && index < first + size;
}

}  // namespace

void Pmu::reset()
{
    for (unsigned n = 0; n < PMU_COUNTERS; n++)
        counters_[n] = Counter();
    for (uint64_t &evtsel : evtsel_)
        evtsel = 0;
    fixed_ctrl_ = 0;
    // All general counters on: what version 1 software expects.
    global_ctrl_ = bit(PMU_GENERAL) - 1;
    status_ = 0;
    pmi_at_ = PMU_NEVER;
    update();
}

bool Pmu::enabled(unsigned n) const
{
    if (!(global_ctrl_ & bit(global_bit(n))) || (status_ & GLOBAL_STATUS_CTR_FRZ))
        return false;
    if (n < PMU_GENERAL)
        return evtsel_[n] & PERFEVTSEL_EN;
    return fixed_ctrl_ >> (n - PMU_GENERAL) * FIXED_CTRL_BITS & (FIXED_CTRL_OS | FIXED_CTRL_USR);
}

bool Pmu::interrupts(unsigned n) const
{
    if (n < PMU_GENERAL)
        return evtsel_[n] & PERFEVTSEL_INT;
    return fixed_ctrl_ >> (n - PMU_GENERAL) * FIXED_CTRL_BITS & FIXED_CTRL_PMI;
}

Selector Pmu::selector(unsigned n) const
{
    if (n < PMU_GENERAL)
        return selector_of_evtsel(evtsel_[n]);
    n -= PMU_GENERAL;
    return selector_of_fixed(n, fixed_ctrl_ >> n * FIXED_CTRL_BITS & FIXED_CTRL_FIELD);
}

void Pmu::update()
{
    for (unsigned n = 0; n < PMU_COUNTERS; n++) {
        Selector wanted = selector(n);
        bool changed = wanted.event != selectors_[n].event || wanted.shape != selectors_[n].shape ||
                       wanted.user != selectors_[n].user || wanted.kernel != selectors_[n].kernel;
        if (counters_[n].running() && (changed || !enabled(n)))
            counters_[n].stop(now_of(n));
        selectors_[n] = wanted;
        if (!counters_[n].running() && enabled(n))
            counters_[n].start(next_of(n));
    }
}

void Pmu::write_counter(unsigned n, uint64_t value)
{
    counters_[n].write(value, next_of(n));
}

uint64_t Pmu::in_use() const
{
    uint64_t value = 0;

    for (unsigned n = 0; n < PMU_COUNTERS; n++) {
        bool used = n < PMU_GENERAL
                        ? (evtsel_[n] & PERFEVTSEL_EVENT) != 0
                        : (fixed_ctrl_ >> (n - PMU_GENERAL) * FIXED_CTRL_BITS &
                           (FIXED_CTRL_OS | FIXED_CTRL_USR)) != 0;
        if (used)
            value |= bit(global_bit(n));
        if (interrupts(n))
            value |= GLOBAL_INUSE_PMI;
    }
    return value;
}

bool Pmu::global_ctrl_valid(uint64_t value)
{
    return !(value & ~GLOBAL_COUNTERS);
}

void Pmu::set_global_ctrl(uint64_t value)
{
    global_ctrl_ = value;
    update();
}

MsrResult Pmu::read_msr(uint32_t index, uint64_t *value) const
{
    unsigned n;

    if (in_block(index, IA32_PMC0, PMU_GENERAL, &n) ||
        in_block(index, IA32_A_PMC0, PMU_GENERAL, &n))
        *value = counters_[n].read(now_of(n));
    else if (in_block(index, IA32_FIXED_CTR0, PMU_FIXED, &n))
        *value = counters_[PMU_GENERAL + n].read(now_of(PMU_GENERAL + n));
    else if (in_block(index, IA32_PERFEVTSEL0, PMU_GENERAL, &n))
        *value = evtsel_[n];
    else if (index == IA32_FIXED_CTR_CTRL)
        *value = fixed_ctrl_;
    else if (index == IA32_PERF_GLOBAL_STATUS)
        *value = status_;
    else if (index == IA32_PERF_GLOBAL_CTRL)
        *value = global_ctrl_;
    else if (index == IA32_PERF_GLOBAL_STATUS_RESET || index == IA32_PERF_GLOBAL_STATUS_SET)
        *value = 0;
    else if (index == IA32_PERF_GLOBAL_INUSE)
        *value = in_use();
    else if (index == IA32_PERF_CAPABILITIES)
        *value = CAPABILITIES;
    else
        return MSR_ABSENT;
    return MSR_DONE;
}

MsrResult Pmu::write_msr(uint32_t index, uint64_t value)
{
    unsigned n;
    uint64_t reserved;

    if (in_block(index, IA32_PMC0, PMU_GENERAL, &n)) {
        // The low half, sign-extended; SDM Vol. 3, "Full-Width Writes to Performance Counters".
        write_counter(n, static_cast<uint64_t>(static_cast<int32_t>(value)));
        return MSR_DONE;
    }
    if (in_block(index, IA32_A_PMC0, PMU_GENERAL, &n))
        reserved = ~COUNTER_MASK;
    else if (in_block(index, IA32_FIXED_CTR0, PMU_FIXED, &n))
        reserved = ~COUNTER_MASK;
    else if (in_block(index, IA32_PERFEVTSEL0, PMU_GENERAL, &n))
        reserved = ~PERFEVTSEL_VALID;
    else if (index == IA32_FIXED_CTR_CTRL)
        reserved = ~FIXED_CTRL_VALID;
    else if (index == IA32_PERF_GLOBAL_CTRL)
        reserved = ~GLOBAL_COUNTERS;
    else if (index == IA32_PERF_GLOBAL_STATUS_RESET)
        reserved = ~STATUS_RESET_VALID;
    else if (index == IA32_PERF_GLOBAL_STATUS_SET)
        reserved = ~STATUS_SET_VALID;
    else if (index == IA32_PERF_GLOBAL_STATUS || index == IA32_PERF_GLOBAL_INUSE ||
             index == IA32_PERF_CAPABILITIES)
        return MSR_FAULT;
    else
        return MSR_ABSENT;
    if (value & reserved)
        return MSR_FAULT;

    if (in_block(index, IA32_A_PMC0, PMU_GENERAL, &n))
        write_counter(n, value);
    else if (in_block(index, IA32_FIXED_CTR0, PMU_FIXED, &n))
        write_counter(PMU_GENERAL + n, value);
    else if (in_block(index, IA32_PERFEVTSEL0, PMU_GENERAL, &n))
        evtsel_[n] = value;
    else if (index == IA32_FIXED_CTR_CTRL)
        fixed_ctrl_ = value;
    else if (index == IA32_PERF_GLOBAL_CTRL)
        global_ctrl_ = value;
    else if (index == IA32_PERF_GLOBAL_STATUS_RESET)
        status_ &= ~value;
    else
        status_ |= value;
    update();
    return MSR_DONE;
}

bool Pmu::rdpmc(uint32_t ecx, uint64_t *value) const
{
    uint32_t n = ecx & ~RDPMC_FIXED;

    if (n >= (ecx & RDPMC_FIXED ? PMU_FIXED : PMU_GENERAL))
        return false;
    if (ecx & RDPMC_FIXED)
        n += PMU_GENERAL;
    *value = counters_[n].read(now_of(n));
    return true;
}

void Pmu::look(uint64_t now)
{
    for (unsigned n = 0; n < PMU_COUNTERS; n++) {
        if (!counters_[n].running() || !counters_[n].take_overflow(now_of(n)))
            continue;
        status_ |= own_status_ ? bit(global_bit(n)) : overflow_status_;
        if (interrupts(n) && pmi_at_ == PMU_NEVER)
            pmi_at_ = now + next_skid();
    }
}

bool Pmu::take_pmi(uint64_t now)
{
    if (now < pmi_at_)
        return false;
    pmi_at_ = PMU_NEVER;
    return true;
}

void Pmu::on_pmi(uint64_t debugctl)
{
    if (debugctl & DEBUGCTL_FREEZE_PERFMON_ON_PMI)
        status_ |= GLOBAL_STATUS_CTR_FRZ;
    if (debugctl & DEBUGCTL_FREEZE_LBRS_ON_PMI)
        status_ |= GLOBAL_STATUS_LBR_FRZ;
    update();
}

bool Pmu::lbr_frozen() const
{
    return status_ & GLOBAL_STATUS_LBR_FRZ;
}

uint64_t Pmu::budget(unsigned mode, uint64_t now) const
{
    uint64_t least = pmi_at_ == PMU_NEVER ? PMU_NEVER : pmi_at_ > now ? pmi_at_ - now : 1;

    for (unsigned n = 0; n < PMU_COUNTERS; n++) {
        if (!counters_[n].running() || !selectors_[n].takes(mode) ||
            !selectors_[n].per_instruction())
            continue;
        uint64_t left = counters_[n].left(now_of(n));
        if (left < least)
            least = left;
    }
    return least;
}

bool Pmu::counts(Event event) const
{
    for (unsigned n = 0; n < PMU_COUNTERS; n++)
        if (counters_[n].running() && selectors_[n].needs(event))
            return true;
    return false;
}
