// SPDX-License-Identifier: BSD-2-Clause
//
// The branch trace: its records, its file, which regions open it, and its knob.
#include <cstdio>
#include <sstream>

#include "branch_trace.h"
#include "check.h"
#include "knobs.h"
#include "temporary_file.h"

namespace {

TEST(a_traced_branch_has_all_of_its_flags)
{
    TraceRecord record = trace_record({1, 2, 3, BRANCH_RET, true, true, false, false, 0}, 5);
    CHECK_EQUAL(record.from, 1u);
    CHECK_EQUAL(record.to, 2u);
    CHECK_EQUAL(record.cycles, 3u);
    CHECK_EQUAL(int{record.kind}, int{BRANCH_RET});
    CHECK_EQUAL(int{record.flags}, TRACE_MISPREDICTED | TRACE_USER_BEFORE);
    CHECK_EQUAL(unsigned{record.processor}, 5u);
    record = trace_record({1, 2, 3, BRANCH_FAR, false, false, true, true, 14}, 0);
    CHECK_EQUAL(unsigned{record.kind}, unsigned{TRACE_EVENT});
    CHECK_EQUAL(unsigned{record.flags}, unsigned{TRACE_USER_AFTER});
    CHECK_EQUAL(unsigned{record.vector}, 14u);
    CHECK_EQUAL(sizeof(record), 32u);
}

TEST(regions_open_the_trace)
{
    TemporaryFile file;
    const RegionKnob knob{file.name, 10, 12};
    BranchTrace trace;
    CHECK(!trace.region(9, true, knob, 0, 0));
    CHECK(!trace.region(13, true, knob, 0, 0));
    CHECK(!trace.region(10, false, knob, 0, 0));
    CHECK(!trace.on());
    CHECK(trace.region(10, true, knob, 0, 0));
    CHECK(trace.region(12, true, knob, 0, 0));
    CHECK(trace.region(10, false, knob, 0, 0));
    CHECK(trace.on());
    trace.branch({}, 0);
    CHECK(trace.region(12, false, knob, 0, 0));
    CHECK(!trace.on());
    CHECK(!trace.region(11, true, RegionKnob(), 0, 0));
    std::fflush(nullptr);
    CHECK_EQUAL(file.content().size(), 5u * 32);
}

TEST(knob_of_the_branch_trace)
{
    Knobs knobs;
    std::string error;
    std::istringstream good("branch_trace 3-9 /a b\n");
    CHECK(knobs_parse(good, &knobs, &error));
    RegionKnob trace;
    CHECK(region_knob_parse(knobs.parts.at("branch_trace"), &trace));
    CHECK_EQUAL(trace.path, "/a b");
    CHECK_EQUAL(trace.first, 3u);
    CHECK_EQUAL(trace.last, 9u);
    // It may change where a server forks, at init too.
    CHECK_EQUAL(knobs.machine, "");
    CHECK_EQUAL(knobs.before_init, "");
    for (const char *bad : {"branch_trace", "branch_trace 3", "branch_trace x /a",
                            "branch_trace 0x100000000 /a", "branch_trace 9-3 /a"}) {
        std::istringstream in(bad);
        CHECK(!knobs_parse(in, &knobs, &error));
    }
}

}  // namespace
