/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The knob platform: MSRs of the package that tools read and that count no events: ratios, RAPL
 * energy, residencies of C-states, temperature, SMIs. README.md, "Platform registers", defines what
 * counts. Knows no Bochs. SDM Vol. 4, the tables of Skylake server and those that they refer to;
 * Vol. 3, "Platform Specific Power Management Support".
 */
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pmu.h"

/* Limits by the number of active cores: the first of one core, the second of two, ... */
constexpr unsigned TURBO_RATIOS_MAX = 8;
constexpr unsigned RATIO_MAX = 0xff;
/* Of 100 MHz, without turbo: as the model's name says. */
constexpr unsigned MODEL_RATIO = 35;
constexpr unsigned RATIO_HZ = 100000000;

struct PlatformShape {
    bool on = false;
    std::vector<unsigned> ratios; /* empty: that without turbo for all */
    unsigned ratio = MODEL_RATIO;

    /* CPUID.06H:EAX[1] */
    bool turbo() const { return !ratios.empty() && ratios[0] > ratio; }
};

/* Since power-on: ticks of the machine's clock, and instructions of all processors. */
struct PlatformTime {
    uint64_t ticks = 0;
    uint64_t instructions = 0;
};

/* What one package shares: how many of its processors are in C6, and how long all of them were. */
class Package {
public:
    void add() { processors_++; }
    void enter(uint64_t ticks);
    void leave(uint64_t ticks);
    uint64_t c6(uint64_t ticks) const;

private:
    unsigned processors_ = 0;
    unsigned asleep_ = 0;
    uint64_t since_ = 0;
    uint64_t all_ = 0;
};

class Platform {
public:
    explicit Platform(Package &package) : package_(package) { package.add(); }

    /* After power-on and RESET. */
    void reset(const PlatformTime &now);

    MsrResult read_msr(const PlatformShape &shape, uint32_t index, const PlatformTime &now,
                       uint64_t *value) const;
    MsrResult write_msr(const PlatformShape &shape, uint32_t index, uint64_t value);
    /* Bits that a register of the model has as well. */
    uint64_t also(const PlatformShape &shape, uint32_t index) const;

    /* MWAIT has put the processor to sleep, with these hints; and it executes again. */
    void sleeps(uint32_t hints, uint64_t ticks);
    void wakes(uint64_t ticks);
    bool asleep() const { return asleep_; }

private:
    Package &package_;
    PlatformTime base_;
    bool asleep_ = false;
    uint64_t since_ = 0;
    uint64_t c6_ = 0;
    uint64_t package_c6_base_ = 0;
    std::map<uint32_t, uint64_t> written_;
};
