// SPDX-License-Identifier: BSD-2-Clause
//
// The platform's registers: what is constant, what counts by which clock, who may write.
#include <sstream>

#include "check.h"
#include "knobs.h"
#include "msr_index.h"
#include "platform.h"

namespace {

constexpr uint32_t C1 = 0x00, C6 = 0x20;

struct Machine {
    PlatformShape shape;
    PlatformTime now;
    Package package;
    Platform platform{package};

    Machine() { shape.on = true; }
    uint64_t read(uint32_t index)
    {
        uint64_t value = 0;
        CHECK_EQUAL(platform.read_msr(shape, index, now, &value), MSR_DONE);
        return value;
    }
    MsrResult write(uint32_t index, uint64_t value)
    {
        return platform.write_msr(shape, index, value);
    }
    bool absent(uint32_t index)
    {
        uint64_t value;
        return platform.read_msr(shape, index, now, &value) == MSR_ABSENT &&
               platform.write_msr(shape, index, 0) == MSR_ABSENT;
    }
};

TEST(platform_is_a_knob)
{
    Machine m;
    m.shape.on = false;
    for (uint32_t index : {MSR_SMI_COUNT, MSR_TURBO_RATIO_LIMIT, MSR_RAPL_POWER_UNIT,
                           MSR_PKG_ENERGY_STATUS, MSR_CORE_C6_RESIDENCY})
        CHECK(m.absent(index));
    CHECK_EQUAL(m.platform.also(m.shape, IA32_THERM_STATUS), 0u);
}

TEST(platform_without_a_meaning_is_absent)
{
    Machine m;
    // MSR_PP0_ENERGY_STATUS, MSR_UNCORE_RATIO_LIMIT, MSR_CORE_C3_RESIDENCY, MSR_CORE_C7_RESIDENCY,
    // MSR_PKG_C3_RESIDENCY, MSR_PKG_C7_RESIDENCY
    for (uint32_t index : {0x639, 0x620, 0x3fc, 0x3fe, 0x3f8, 0x3fa})
        CHECK(m.absent(index));
}

TEST(turbo_ratios)
{
    Machine m;
    CHECK_EQUAL(m.read(MSR_TURBO_RATIO_LIMIT), 35u);
    CHECK_EQUAL(m.read(MSR_TURBO_RATIO_LIMIT_CORES), 255u);
    CHECK_EQUAL(m.read(MSR_PLATFORM_INFO), uint64_t{12} << 40 | 35 << 8);
    m.shape.ratio = 5;
    CHECK_EQUAL(m.read(MSR_TURBO_RATIO_LIMIT), 5u);
    CHECK_EQUAL(m.read(MSR_PLATFORM_INFO), uint64_t{5} << 40 | 5 << 8);
    CHECK_EQUAL(m.read(IA32_PERF_STATUS), 5u << 8);
    m.shape.ratios = {40, 40, 38};
    CHECK_EQUAL(m.read(MSR_TURBO_RATIO_LIMIT), 0x262828u);
    CHECK_EQUAL(m.read(MSR_TURBO_RATIO_LIMIT_CORES), 0x030201u);
    CHECK_EQUAL(m.write(MSR_TURBO_RATIO_LIMIT, 35), MSR_FAULT);
    CHECK(m.shape.turbo());
    m.shape.ratios = {5, 4};
    CHECK(!m.shape.turbo());
}

TEST(energy_counts)
{
    Machine m;
    m.now = {5000, 1000};
    m.platform.reset(m.now);
    CHECK_EQUAL(m.read(MSR_PKG_ENERGY_STATUS), 0u);
    m.now.ticks += 10 * 1024 + 1023;
    CHECK_EQUAL(m.read(MSR_PKG_ENERGY_STATUS), 10u);
    m.now.instructions += 7 * 256;
    CHECK_EQUAL(m.read(MSR_PKG_ENERGY_STATUS), 17u);
    CHECK_EQUAL(m.read(MSR_DRAM_ENERGY_STATUS), 10u);
    // 32 bits
    m.now.ticks += uint64_t{1024} << 32;
    CHECK_EQUAL(m.read(MSR_PKG_ENERGY_STATUS), 17u);
    CHECK_EQUAL(m.write(MSR_PKG_ENERGY_STATUS, 0), MSR_FAULT);
    // 1/8 W, 61 microjoules, 976 microseconds
    CHECK_EQUAL(m.read(MSR_RAPL_POWER_UNIT), 0xa0e03u);
}

TEST(residency_of_c6)
{
    Machine m;
    m.platform.sleeps(C1, 100);
    CHECK(!m.platform.asleep());
    m.platform.sleeps(C6, 100);
    m.platform.wakes(350);
    m.platform.wakes(900);
    m.now.ticks = 1000;
    CHECK_EQUAL(m.read(MSR_CORE_C6_RESIDENCY), 250u);
    CHECK_EQUAL(m.read(MSR_PKG_C6_RESIDENCY), 250u);
    CHECK_EQUAL(m.read(MSR_PKG_C2_RESIDENCY), 0u);
    m.platform.reset(m.now);
    CHECK_EQUAL(m.read(MSR_CORE_C6_RESIDENCY), 0u);
    CHECK_EQUAL(m.read(MSR_PKG_C6_RESIDENCY), 0u);
}

TEST(a_package_sleeps_when_all_do)
{
    Machine m;
    Platform other(m.package);
    m.platform.sleeps(C6, 100);
    other.sleeps(C6, 300);
    m.platform.wakes(400);
    other.wakes(1000);
    m.now.ticks = 2000;
    CHECK_EQUAL(m.read(MSR_CORE_C6_RESIDENCY), 300u);
    CHECK_EQUAL(m.read(MSR_PKG_C6_RESIDENCY), 100u);
}

TEST(locked_bits_stay)
{
    Machine m;
    uint64_t control = m.read(MSR_PKG_CST_CONFIG_CONTROL);
    CHECK(control & bit(15));
    CHECK_EQUAL(m.write(MSR_PKG_CST_CONFIG_CONTROL, control | 7), MSR_FAULT);
    CHECK_EQUAL(m.write(MSR_PKG_CST_CONFIG_CONTROL, control | bit(25)), MSR_DONE);
    CHECK_EQUAL(m.read(MSR_PKG_CST_CONFIG_CONTROL), control | bit(25));
    CHECK_EQUAL(m.write(MSR_PKG_POWER_LIMIT, 80), MSR_DONE);
    CHECK_EQUAL(m.write(MSR_PKG_POWER_LIMIT, bit(63) | 90), MSR_DONE);
    // Ignored, no fault.
    CHECK_EQUAL(m.write(MSR_PKG_POWER_LIMIT, 70), MSR_DONE);
    CHECK_EQUAL(m.read(MSR_PKG_POWER_LIMIT), bit(63) | 90);
    m.platform.reset(m.now);
    CHECK_EQUAL(m.read(MSR_PKG_POWER_LIMIT), 800u);
    CHECK_EQUAL(m.write(MSR_SMI_COUNT, 0), MSR_FAULT);
    CHECK_EQUAL(m.write(MSR_VR_CURRENT_CONFIG, 0), MSR_FAULT);
    CHECK_EQUAL(m.write(MSR_PKGC6_IRTL, 0x8c01), MSR_DONE);
    CHECK_EQUAL(m.read(MSR_PKGC6_IRTL), 0x8c01u);
    CHECK_EQUAL(m.write(MSR_PKGC6_IRTL, 0x2000), MSR_FAULT);
}

TEST(bits_of_the_models_own_registers)
{
    Machine m;
    CHECK_EQUAL(m.platform.also(m.shape, IA32_THERM_STATUS) >> 16 & 0x7f, 60u);
    CHECK_EQUAL(m.platform.also(m.shape, IA32_PACKAGE_THERM_STATUS) >> 16 & 0x7f, 60u);
    CHECK_EQUAL(m.platform.also(m.shape, IA32_MISC_ENABLE), 0u);
}

bool reads(const std::string &text, Knobs *knobs)
{
    std::istringstream in(text);
    std::string error;
    *knobs = Knobs();
    return knobs_parse(in, knobs, &error);
}

TEST(knobs_of_the_platform)
{
    Knobs knobs;
    CHECK(reads("platform on\nratios 40,39,39\n", &knobs));
    CHECK_EQUAL(knobs.platform.ratios.size(), 3u);
    CHECK_EQUAL(knobs.platform.ratio, 35u);
    CHECK(reads("platform on\ntsc_hz 500000000\n", &knobs));
    CHECK_EQUAL(knobs.platform.ratio, 5u);
    CHECK(!reads("ratios 40\n", &knobs));
    CHECK(!reads("platform yes\n", &knobs));
    for (const char *bad : {"39,40", "0", "256", "40,", "", "9,8,7,6,5,4,3,2,1"})
        CHECK(!reads(std::string("platform on\nratios ") + bad + "\n", &knobs));
}

}  // namespace
