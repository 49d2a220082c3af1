// SPDX-License-Identifier: BSD-2-Clause
//
// The flow log: its file, and that what comes from a sleeping processor has waked it. Its knob.
#include <cstdio>
#include <cstring>
#include <sstream>

#include "check.h"
#include "flow_log.h"
#include "knobs.h"
#include "temporary_file.h"

namespace {

static_assert(sizeof(FlowRecord) == 56, "flow_log.py");

FlowRecord event(FlowKind kind, uint64_t tsc)
{
    FlowRecord record = {};

    record.kind = kind;
    record.tsc = tsc;
    record.value = 7;
    return record;
}

TEST(who_does_something_is_awake)
{
    TemporaryFile file;
    FlowLog first, second;
    first.event(event(FLOW_CR3, 1), file.name);
    first.executes(event(FLOW_WAKE, 2), file.name);  // awake already: nothing
    first.event(event(FLOW_HLT, 3), file.name);
    CHECK(first.asleep());
    second.event(event(FLOW_MWAIT, 4), file.name);
    first.event(event(FLOW_INTERRUPT, 5), file.name);  // with a wake-up before it
    CHECK(!first.asleep());
    second.executes(event(FLOW_WAKE, 6), file.name);
    CHECK(!second.asleep());
    std::fflush(nullptr);

    const std::string text = file.content();
    static const unsigned kinds[] = {FLOW_CR3,  FLOW_HLT,       FLOW_MWAIT,
                                     FLOW_WAKE, FLOW_INTERRUPT, FLOW_WAKE};
    static const unsigned times[] = {1, 3, 4, 5, 5, 6};
    CHECK_EQUAL(text.substr(0, 8), FLOW_MAGIC);
    CHECK_EQUAL(text.size(), 8 + 6 * sizeof(FlowRecord));
    for (unsigned n = 0; n < 6; n++) {
        FlowRecord record;
        std::memcpy(&record, &text[8 + n * sizeof(record)], sizeof(record));
        CHECK_EQUAL(unsigned{record.kind}, kinds[n]);
        CHECK_EQUAL(record.tsc, times[n]);
        CHECK_EQUAL(record.value, kinds[n] == FLOW_WAKE ? 0u : 7u);
    }
}

TEST(knobs_of_the_flow)
{
    Knobs knobs;
    std::string error;
    std::istringstream good("flow_log /a b\n");
    CHECK(knobs_parse(good, &knobs, &error));
    CHECK_EQUAL(knobs.parts.at("flow_log"), "/a b");
    // It may change where a server forks, but not at init: its file has begun.
    CHECK_EQUAL(knobs.machine, "");
    CHECK_EQUAL(knobs.before_init, "flow_log /a b\n");
    std::istringstream bad("flow_log");
    CHECK(!knobs_parse(bad, &knobs, &error));
}

}  // namespace
