// SPDX-License-Identifier: BSD-2-Clause
//
// The noisy clock: what each rate adds, that SMIs take time and are counted, and that a run without
// the knob has the ticks themselves.
#include <sstream>

#include "check.h"
#include "knobs.h"
#include "noise.h"

namespace {

constexpr uint64_t SECOND = 50000000, BEGIN = 12345;

// What a second more than its ticks takes.
uint64_t late(const NoiseShape &shape, uint32_t *smis = nullptr)
{
    Noise noise;

    noise.begin(BEGIN);
    uint64_t time = noise.time(shape, BEGIN + SECOND);
    if (smis)
        *smis = noise.smis();
    return time - BEGIN - SECOND;
}

Knobs parsed(const std::string &line, const std::string &wrong = "")
{
    std::istringstream in(line);
    std::string error;
    Knobs knobs;

    CHECK_EQUAL(knobs_parse(in, &knobs, &error), wrong.empty());
    CHECK(error.find(wrong) != std::string::npos);
    return knobs;
}

TEST(noise_is_a_knob)
{
    CHECK(!parsed("").noise.on);
    NoiseShape shape = parsed("tsc_noise seed=7 jitter=1 drift=2 slow=3 smi=4096 since=5\n").noise;
    CHECK(shape.on && shape.seed == 7 && shape.jitter == 1 && shape.drift == 2 && shape.slow == 3 &&
          shape.smi == 4096 && shape.since == 5);
    for (const char *bad : {"jitter=1", "seed=", "seed=1 smi=4095", "seed=1 heat=1", "seed=1 slow"})
        parsed(std::string("tsc_noise ") + bad + "\n", "wanted seed=N");
}

TEST(noise_begins_when_it_is_told)
{
    NoiseShape shape;
    Noise noise;

    shape.slow = 500000;
    CHECK_EQUAL(noise.time(shape, SECOND), SECOND);
    noise.begin(SECOND);
    noise.begin(2 * SECOND);
    CHECK_EQUAL(noise.time(shape, SECOND), SECOND);
    CHECK_EQUAL(noise.time(shape, SECOND + 1000), SECOND + 1500);
    CHECK_EQUAL(noise.time(shape, 3 * SECOND), 4 * SECOND);
}

TEST(noise_rates)
{
    NoiseShape shape;

    CHECK_EQUAL(late(shape), 0u);
    shape.slow = 5000;
    CHECK_EQUAL(late(shape), SECOND / 200);
    shape = NoiseShape();
    shape.drift = 20000;
    // 0 to a 20th of 2 %, half of it on average; later 2 % more. Each block has whole millionths.
    CHECK(late(shape) > 24900 && late(shape) <= 25000);
    shape.since = DRIFT_TICKS;
    CHECK(late(shape) > 1024900 && late(shape) <= 1025000);
}

TEST(noise_jitter)
{
    NoiseShape shape;
    uint64_t sum = 0, least = SECOND, most = 0;

    shape.jitter = 1000;
    for (shape.seed = 0; shape.seed < 300; shape.seed++) {
        uint64_t one = late(shape);
        sum += one;
        least = std::min(least, one);
        most = std::max(most, one);
    }
    // Blocks have 1000 millionths on average, and a start up to 3000 more, 333 on average.
    CHECK(sum / 300 > SECOND * 1200 / 1000000 && sum / 300 < SECOND * 1470 / 1000000);
    CHECK(least > SECOND * 950 / 1000000 && least < SECOND * 1050 / 1000000);
    CHECK(most > SECOND * 2500 / 1000000 && most < SECOND * 4050 / 1000000);
    shape.seed = 9;
    CHECK_EQUAL(late(shape), late(shape));
}

TEST(noise_never_runs_back)
{
    NoiseShape shape;
    Noise noise;
    uint64_t before = 0;

    shape.jitter = 1000000;
    shape.smi = 20000;
    noise.begin(0);
    for (uint64_t ticks = 0; ticks < 1000000; ticks += ticks % 977 + 1) {
        uint64_t time = noise.time(shape, ticks);
        CHECK(time >= before && time >= ticks);
        before = time;
    }
}

TEST(smis_are_counted_and_take_time)
{
    NoiseShape shape;
    uint32_t smis;

    shape.smi = SECOND / 100;
    uint64_t lost = late(shape, &smis);
    CHECK(smis > 70 && smis < 130);
    CHECK(lost >= smis * SMI_LEAST && lost < smis * SMI_MOST);
    shape.smi = 0;
    CHECK_EQUAL(late(shape, &smis), 0u);
    CHECK_EQUAL(smis, 0u);
}

}  // namespace
