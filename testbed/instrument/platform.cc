// SPDX-License-Identifier: BSD-2-Clause
//
// Constants, and counters that are worked out when they are read. A register that would have no
// meaning here is not there: PP0, uncore ratios, C3 and C7, productive performance.
#include "platform.h"

#include <algorithm>

#include "msr_index.h"

namespace {

constexpr uint64_t ANY = ~uint64_t{0};

// MSR_PKG_CST_CONFIG_CONTROL: C6 without retention, and bits 15:0 are locked. Demotion is
// software's.
constexpr uint64_t CST_LIMIT_C6 = 2;
constexpr uint64_t CST_LOCK = bit(15);
constexpr uint64_t CST_DEMOTION = bit(25) | bit(26) | bit(27) | bit(28);
// MSR_RAPL_POWER_UNIT: 1/8 W, 1/2^14 J, 1/1024 s. The energy of memory is in 1/2^16 J whatever it
// says.
constexpr uint64_t RAPL_UNITS = 3 | 14 << 8 | 10 << 16;
constexpr unsigned WATT = 8;
constexpr uint64_t PACKAGE_WATTS = 100, MEMORY_WATTS = 20;
// Thermal specification, minimum and maximum power.
constexpr uint64_t power_info(uint64_t watts)
{
    return watts * WATT | (watts / 2 * WATT) << 16 | (watts * WATT) << 32;
}
constexpr uint64_t POWER_LIMIT_4 = 2 * PACKAGE_WATTS * WATT | bit(31);  // locked
// MSR_PKGCx_IRTL: valid, unit and limit of the time that an interrupt may wait.
constexpr uint64_t RESPONSE_TIME = 0x9fff;
constexpr uint64_t LIMIT_LOCK = bit(63), MEMORY_LIMIT_LOCK = bit(31);
// One unit of energy for so many of them.
constexpr uint64_t TICKS_OF_UNIT = 1024, INSTRUCTIONS_OF_UNIT = 256;
constexpr uint64_t ENERGY = 0xffffffff;
// IA32_THERM_STATUS: so many degrees below the target, in steps of one.
constexpr uint64_t DEGREES_BELOW = 60, READOUT_SHIFT = 16, RESOLUTION = uint64_t{1} << 27;
// MWAIT's hints: bits 7:4 are 2 for C6 on Skylake-SP.
constexpr uint32_t HINT_C6 = 2;
constexpr unsigned HINT_SHIFT = 4, HINT_STATE = 0xf;
constexpr unsigned RATIO_BITS = 8;
constexpr unsigned RATIO_SHIFT = 8;  // MSR_PLATFORM_INFO, IA32_PERF_STATUS
constexpr unsigned EFFICIENT_RATIO = 12;
constexpr unsigned EFFICIENT_RATIO_SHIFT = 40;

struct Constant {
    uint32_t index;
    uint64_t value;
    uint64_t writable;
};

constexpr Constant constants[] = {
    {MSR_SMI_COUNT, 0, 0},
    {MSR_PKG_CST_CONFIG_CONTROL, CST_LIMIT_C6 | CST_LOCK, CST_DEMOTION},
    {MSR_VR_CURRENT_CONFIG, POWER_LIMIT_4, 0},
    {MSR_RAPL_POWER_UNIT, RAPL_UNITS, 0},
    {MSR_PKGC3_IRTL, 0, RESPONSE_TIME},
    {MSR_PKGC6_IRTL, 0, RESPONSE_TIME},
    {MSR_PKGC7_IRTL, 0, RESPONSE_TIME},
    {MSR_PKG_POWER_LIMIT, PACKAGE_WATTS *WATT, ANY},
    {MSR_PKG_PERF_STATUS, 0, 0},
    {MSR_PKG_POWER_INFO, power_info(PACKAGE_WATTS), 0},
    {MSR_DRAM_POWER_LIMIT, 0, ENERGY},
    {MSR_DRAM_PERF_STATUS, 0, 0},
    {MSR_DRAM_POWER_INFO, power_info(MEMORY_WATTS), 0},
    {MSR_CONFIG_TDP_LEVEL1, 0, 0},
    {MSR_CONFIG_TDP_LEVEL2, 0, 0},
    {MSR_CONFIG_TDP_CONTROL, bit(31), 0},
    {MSR_TURBO_ACTIVATION_RATIO, bit(31), 0},
};

const Constant *find(uint32_t index)
{
    for (const Constant &constant : constants)
        if (constant.index == index)
            return &constant;
    return nullptr;
}

// The limits, or how many cores each of them is for.
uint64_t turbo(const PlatformShape &shape, bool cores)
{
    uint64_t value = 0;

    if (shape.ratios.empty())
        return cores ? RATIO_MAX : shape.ratio;
    for (unsigned n = 0; n < shape.ratios.size(); n++)
        value |= uint64_t{cores ? n + 1 : shape.ratios[n]} << n * RATIO_BITS;
    return value;
}

}  // namespace

void Package::enter(uint64_t ticks)
{
    if (++asleep_ == processors_)
        since_ = ticks;
}

void Package::leave(uint64_t ticks)
{
    all_ = c6(ticks);
    asleep_--;
}

uint64_t Package::c6(uint64_t ticks) const
{
    return all_ + (asleep_ == processors_ ? ticks - since_ : 0);
}

void Platform::reset(const PlatformTime &now)
{
    wakes(now.ticks);
    base_ = now;
    c6_ = 0;
    package_c6_base_ = package_.c6(now.ticks);
    written_.clear();
}

MsrResult Platform::read_msr(const PlatformShape &shape, uint32_t index, const PlatformTime &now,
                             uint64_t *value) const
{
    uint64_t ticks = now.ticks - base_.ticks;

    if (!shape.on)
        return MSR_ABSENT;
    switch (index) {
    case MSR_TURBO_RATIO_LIMIT:
    case MSR_TURBO_RATIO_LIMIT_CORES:
        *value = turbo(shape, index == MSR_TURBO_RATIO_LIMIT_CORES);
        return MSR_DONE;
    case MSR_PLATFORM_INFO:
        *value = uint64_t{shape.ratio} << RATIO_SHIFT |
                 uint64_t{std::min(shape.ratio, EFFICIENT_RATIO)} << EFFICIENT_RATIO_SHIFT;
        return MSR_DONE;
    case IA32_PERF_STATUS:
        *value = uint64_t{shape.ratio} << RATIO_SHIFT;
        return MSR_DONE;
    case MSR_CONFIG_TDP_NOMINAL:
        *value = shape.ratio;
        return MSR_DONE;
    case MSR_PKG_ENERGY_STATUS:
        *value = (ticks / TICKS_OF_UNIT +
                  (now.instructions - base_.instructions) / INSTRUCTIONS_OF_UNIT) &
                 ENERGY;
        return MSR_DONE;
    case MSR_DRAM_ENERGY_STATUS:
        *value = ticks / TICKS_OF_UNIT & ENERGY;
        return MSR_DONE;
    case MSR_CORE_C6_RESIDENCY:
        *value = c6_;
        return MSR_DONE;
    case MSR_PKG_C2_RESIDENCY:  // never stays there
        *value = 0;
        return MSR_DONE;
    case MSR_PKG_C6_RESIDENCY:
        *value = package_.c6(now.ticks) - package_c6_base_;
        return MSR_DONE;
    }
    const Constant *constant = find(index);
    if (!constant)
        return MSR_ABSENT;
    auto written = written_.find(index);
    *value = written == written_.end() ? constant->value : written->second;
    return MSR_DONE;
}

MsrResult Platform::write_msr(const PlatformShape &shape, uint32_t index, uint64_t value)
{
    uint64_t now;

    if (read_msr(shape, index, PlatformTime(base_), &now) != MSR_DONE)
        return MSR_ABSENT;
    const Constant *constant = find(index);
    if (!constant || constant->writable == 0 || ((now ^ value) & ~constant->writable))
        return MSR_FAULT;
    // "If set, all write attempts to this MSR are ignored until next RESET."
    if (index == MSR_PKG_POWER_LIMIT && (now & LIMIT_LOCK))
        return MSR_DONE;
    if (index == MSR_DRAM_POWER_LIMIT && (now & MEMORY_LIMIT_LOCK))
        return MSR_DONE;
    written_[index] = value;
    return MSR_DONE;
}

uint64_t Platform::also(const PlatformShape &shape, uint32_t index) const
{
    if (!shape.on)
        return 0;
    if (index == IA32_THERM_STATUS || index == IA32_PACKAGE_THERM_STATUS)
        return DEGREES_BELOW << READOUT_SHIFT | (index == IA32_THERM_STATUS ? RESOLUTION : 0);
    return 0;
}

void Platform::sleeps(uint32_t hints, uint64_t ticks)
{
    if (asleep_ || (hints >> HINT_SHIFT & HINT_STATE) != HINT_C6)
        return;
    asleep_ = true;
    since_ = ticks;
    package_.enter(ticks);
}

void Platform::wakes(uint64_t ticks)
{
    if (!asleep_)
        return;
    asleep_ = false;
    c6_ += ticks - since_;
    package_.leave(ticks);
}
