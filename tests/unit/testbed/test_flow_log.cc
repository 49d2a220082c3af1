// SPDX-License-Identifier: BSD-2-Clause
//
// The flow log: its file, and that what comes from a sleeping processor has waked it. The dump of
// rings: what is a ring, what only looks like one, and what is written. Their knobs.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unistd.h>
#include <vector>

#include "check.h"
#include "flow_log.h"
#include "knobs.h"
#include "ring_dump.h"
#include "trace_ring.h"

namespace {

static_assert(RING_DUMP_MAGIC == TRACE_RING_MAGIC, "trace_ring.h");
static_assert(RING_DUMP_VERSION == TRACE_RING_VERSION, "trace_ring.h");
static_assert(RING_DUMP_PAGE == TRACE_RING_HEADER_BYTES, "trace_ring.h");
static_assert(sizeof(FlowRecord) == 40, "flow_log.py");

struct TemporaryFile {
    TemporaryFile() { close(mkstemp(name)); }
    ~TemporaryFile() { unlink(name); }
    std::string content() const
    {
        std::ifstream in(name, std::ios::binary);
        std::ostringstream all;
        all << in.rdbuf();
        return all.str();
    }
    char name[32] = "/tmp/flow-log.XXXXXX";
};

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
    static const unsigned kinds[] = {FLOW_CR3, FLOW_HLT, FLOW_MWAIT, FLOW_WAKE, FLOW_INTERRUPT,
                                     FLOW_WAKE};
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

// Five pages of memory: a ring in the second and third; the fourth is a header without its records.
TEST(rings_in_memory)
{
    TemporaryFile file;
    std::vector<uint8_t> memory(5 * RING_DUMP_PAGE, 0x11);
    struct trace_ring ring = {};
    ring.magic = TRACE_RING_MAGIC;
    ring.version = TRACE_RING_VERSION;
    ring.record_bytes = sizeof(struct trace_record);
    ring.capacity = RING_DUMP_PAGE / sizeof(struct trace_record);
    std::memcpy(&memory[RING_DUMP_PAGE], &ring, sizeof(ring));
    std::memcpy(&memory[2 * RING_DUMP_PAGE], &ring, sizeof(ring));  // a record that looks like one
    ring.capacity *= 2;
    std::memcpy(&memory[3 * RING_DUMP_PAGE], &ring, sizeof(ring));
    auto page = [&](uint64_t at) { return at == 0 ? nullptr : &memory[at]; };

    CHECK_EQUAL(ring_dump(file.name, memory.size(), page), 1);
    CHECK(file.content() == std::string(memory.begin() + RING_DUMP_PAGE,
                                        memory.begin() + 3 * RING_DUMP_PAGE));
    // Of another version; and not at the start of a page.
    memory[RING_DUMP_PAGE + 8]++;
    std::memcpy(&memory[2 * RING_DUMP_PAGE + 64], &memory[2 * RING_DUMP_PAGE], sizeof(ring));
    memory[2 * RING_DUMP_PAGE] = 0;
    CHECK_EQUAL(ring_dump(file.name, memory.size(), page), 0);
    CHECK_EQUAL(file.content().size(), 0u);
    CHECK_EQUAL(ring_dump("/nowhere/at/all", memory.size(), page), -1);
}

TEST(knobs_of_the_flow)
{
    Knobs knobs;
    std::string error;
    std::istringstream good("flow_log /a b\ntrace_rings /c\n");
    CHECK(knobs_parse(good, &knobs, &error));
    CHECK_EQUAL(knobs.flow_log, "/a b");
    CHECK_EQUAL(knobs.trace_rings, "/c");
    // They may change where a server forks.
    CHECK_EQUAL(knobs.machine, "");
    for (const char *bad : {"flow_log", "trace_rings "}) {
        std::istringstream in(bad);
        CHECK(!knobs_parse(in, &knobs, &error));
    }
}

}  // namespace
