// SPDX-License-Identifier: BSD-2-Clause
//
// In integers, so that each host computes the same.
#include "noise.h"

namespace {

constexpr uint64_t MILLION = 1000000;
constexpr uint64_t ONE = 1 << 16;
constexpr unsigned POWER = 9; /* the mean of u to the 8th is 1/9 */
constexpr unsigned LEVEL = 3; /* what all of a start has in common is a third of a block's noise */

// SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t hash(uint64_t seed, uint64_t number)
{
    uint64_t value = seed + (number + 1) * 0x9e3779b97f4a7c15;

    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

// 0 to 9 in units of ONE, and 1 on average: mostly near 0, with a long tail.
uint64_t skewed(uint64_t random)
{
    uint64_t value = random % ONE;

    for (unsigned n = 0; n < 3; n++)
        value = value * value / ONE;
    return value * POWER;
}

}  // namespace

void Noise::begin(uint64_t ticks)
{
    if (begun_)
        return;
    begun_ = true;
    begin_ = ticks;
}

uint64_t Noise::rate(const NoiseShape &shape) const
{
    /* A start differs from other starts, with other seeds, in all of its blocks. */
    uint64_t level = skewed(hash(shape.seed, ~uint64_t{0})) / LEVEL;
    uint64_t block = skewed(hash(shape.seed, block_ / NOISE_BLOCK));

    return shape.slow +
           shape.drift * ((shape.since + block_) / NOISE_BLOCK) / (DRIFT_TICKS / NOISE_BLOCK) +
           shape.jitter * (level + block) / ONE;
}

uint64_t Noise::time(const NoiseShape &shape, uint64_t ticks)
{
    if (!begun_)
        return ticks;
    uint64_t passed = ticks - begin_;
    while (passed - block_ >= NOISE_BLOCK) {
        uint64_t lost = part_ + NOISE_BLOCK * rate(shape);
        uint64_t random = hash(~shape.seed, block_ / NOISE_BLOCK);
        late_ += lost / MILLION;
        part_ = lost % MILLION;
        block_ += NOISE_BLOCK;
        if (shape.smi != 0 && random % shape.smi < NOISE_BLOCK) {
            smis_++;
            late_ += SMI_LEAST + (random >> 32) % (SMI_MOST - SMI_LEAST);
        }
    }
    return ticks + late_ + (part_ + (passed - block_) * rate(shape)) / MILLION;
}
