// SPDX-License-Identifier: BSD-2-Clause
//
// The truth of a profile: what is counted, whose an overflow is, and the knob.
#include <cstdio>
#include <sstream>

#include "check.h"
#include "knobs.h"
#include "profile_truth.h"
#include "temporary_file.h"

namespace {

constexpr TruthPlace user_at(uint64_t rip) { return {0x5000, rip, true, true}; }

TEST(truth_of_a_region)
{
    TemporaryFile file;
    const RegionKnob knob{file.name, 10, 12};
    Truth truth;
    CHECK(!truth.region(knob, 9, true, 0, 0));
    CHECK(!truth.on());
    CHECK(truth.region(knob, 10, true, 100, 1));
    CHECK(truth.on());
    truth.executes(user_at(0x10), 1100, 101, 1);
    // 0x10 has retired, and is no overflow: the bit was set before.
    truth.executes(user_at(0x20), 1101, 102, 1);
    // It has exited, and begins again.
    truth.executes(user_at(0x20), 1141, 102, 0);
    truth.executes(user_at(0x10), 1142, 103, 2);
    truth.interrupt(2, user_at(0x10), 1142, 103);
    // Seen in root mode, where 0x10 was the last one outside. No counter's bit: nothing.
    truth.status(1150, 104, 2 | 1ull << 32);
    truth.status(1151, 104, 2 | 1ull << 32 | 1ull << 62);
    // Root mode takes a bit away and sets it again, as a host does that keeps its guest's status.
    truth.status(1152, 104, 0);
    truth.status(1153, 104, 2);
    truth.executes({0, 0xfff0, false, false}, 1160, 104, 0);
    CHECK(truth.region(knob, 10, false, 104, 0));
    CHECK(!truth.on());
    std::fflush(nullptr);
    CHECK_EQUAL(file.content(), "begin 10\n"
                                "overflow 5000 20 1 1 1142 103\n"
                                "interrupt 2 5000 10 1 1142 103\n"
                                "overflow 5000 10 1 1 1150 104\n"
                                "count 5000 10 1 1 2\n"
                                "count 5000 20 1 1 1\n"
                                "end 10\n");
}

// How its value is read: test_branch_trace.cc.
TEST(knob_of_the_truth)
{
    Knobs knobs;
    std::string error;
    std::istringstream good("profile_truth 3-9 /a b\n"), bad("profile_truth 9-3 /a");
    CHECK(knobs_parse(good, &knobs, &error));
    CHECK_EQUAL(knobs.parts.at("profile_truth"), "3-9 /a b");
    CHECK(!knobs_parse(bad, &knobs, &error));
}

}  // namespace
