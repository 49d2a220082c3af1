/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The clock of a machine that is not quiet: the TSC runs ahead of the emulator's ticks, as if
 * everything took longer. The same seed gives the same time at each tick. Knows no Bochs.
 */
#pragma once

#include <cstdint>

/* Rates are in millionths of the time that passes. */
struct NoiseShape {
    bool on = false;
    uint64_t seed = 0;
    unsigned jitter = 0; /* on average; most of it comes in few blocks */
    unsigned drift = 0;  /* more after each DRIFT_TICKS */
    unsigned slow = 0;   /* always */
    unsigned smi = 0;    /* ticks from one SMI to the next, on average; 0: there is none */
    uint64_t since = 0;  /* ticks of the session that have passed before this run */
};

constexpr uint64_t NOISE_BLOCK = 1 << 12; /* ticks with one rate */
constexpr uint64_t DRIFT_TICKS = 1000000000;
/* What an SMI takes: 40 to 200 microseconds of a clock of 50 MHz. */
constexpr uint64_t SMI_LEAST = 2000, SMI_MOST = 10000;

class Noise {
public:
    /* From this tick on; what came before it was quiet. */
    void begin(uint64_t ticks);
    /* What the TSC has counted at this tick, which is no earlier than that of the call before. */
    uint64_t time(const NoiseShape &shape, uint64_t ticks);
    uint32_t smis() const { return smis_; }

private:
    /* Millionths of the block that begins at `block_`. */
    uint64_t rate(const NoiseShape &shape) const;

    bool begun_ = false;
    uint64_t begin_ = 0; /* tick */
    uint64_t block_ = 0; /* tick, from begin_ on, at which the block begins */
    uint64_t late_ = 0;  /* ticks at that time */
    uint64_t part_ = 0;  /* millionths of a tick besides */
    uint32_t smis_ = 0;
};
