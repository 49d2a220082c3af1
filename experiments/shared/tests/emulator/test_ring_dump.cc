// SPDX-License-Identifier: BSD-2-Clause
//
// The dump of rings: what is a ring, what only looks like one, and what is written. Its knob.
#include <cstring>
#include <sstream>
#include <vector>

#include "check.h"
#include "knobs.h"
#include "ring_dump.h"
#include "temporary_file.h"
#include "trace_ring.h"

namespace {

static_assert(RING_DUMP_MAGIC == TRACE_RING_MAGIC, "trace_ring.h");
static_assert(RING_DUMP_VERSION == TRACE_RING_VERSION, "trace_ring.h");
static_assert(RING_DUMP_PAGE == TRACE_RING_HEADER_BYTES, "trace_ring.h");

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
    const MachineMemory machine = {memory.size(),
                                   [&](uint64_t at) { return at == 0 ? nullptr : &memory[at]; }};

    CHECK_EQUAL(ring_dump(file.name, machine), 1);
    CHECK(file.content() ==
          std::string(memory.begin() + RING_DUMP_PAGE, memory.begin() + 3 * RING_DUMP_PAGE));
    // Of another version; and not at the start of a page.
    memory[RING_DUMP_PAGE + 8]++;
    std::memcpy(&memory[2 * RING_DUMP_PAGE + 64], &memory[2 * RING_DUMP_PAGE], sizeof(ring));
    memory[2 * RING_DUMP_PAGE] = 0;
    CHECK_EQUAL(ring_dump(file.name, machine), 0);
    CHECK_EQUAL(file.content().size(), 0u);
    CHECK_EQUAL(ring_dump("/nowhere/at/all", machine), -1);
}

TEST(knob_of_the_rings)
{
    Knobs knobs;
    std::string error;
    std::istringstream good("trace_rings /c d\n");
    CHECK(knobs_parse(good, &knobs, &error));
    CHECK_EQUAL(knobs.parts.at("trace_rings"), "/c d");
    // It may change where a server forks.
    CHECK_EQUAL(knobs.machine, "");
    std::istringstream bad("trace_rings ");
    CHECK(!knobs_parse(bad, &knobs, &error));
}

}  // namespace
