// SPDX-License-Identifier: BSD-2-Clause
//
// The memory log: what is held and written, what is forgotten, its file, and its knobs.
#include <cstdio>
#include <cstring>
#include <sstream>

#include "check.h"
#include "knobs.h"
#include "memory_log.h"
#include "temporary_file.h"

namespace {

static_assert(sizeof(MemoryRecord) == 64, "memory_log.py");
static_assert(sizeof(MEMORY_MAGIC) == 9, "memory_log.py");

MemoryRecord access(uint64_t phy, uint32_t len)
{
    MemoryRecord record = {};

    record.phy = phy;
    record.len = len;
    return record;
}

TEST(only_what_is_complete_is_written)
{
    TemporaryFile file;
    MemoryLog first, second;
    auto value = [](uint64_t phy, uint32_t len) { return phy << 8 | len; };

    first.access(access(1, 4));
    second.access(access(2, 64));
    second.commit(file.name, value);  // another processor's is not its own
    first.forget();                   // a fault or VM exit
    first.access(access(3, 8));
    CHECK(!first.delivering());
    first.deliver();  // an interrupt before the instruction is complete
    CHECK(first.delivering());
    first.access(access(4, 8));
    first.commit(file.name, value);
    CHECK(!first.delivering());
    first.commit(file.name, value);              // nothing any more
    memory_log_append(file.name, access(5, 8));  // what stays whatever becomes of it
    std::fflush(nullptr);

    const std::string data = file.content();
    const size_t magic = sizeof(MEMORY_MAGIC) - 1;
    CHECK_EQUAL(data.size(), magic + 3 * sizeof(MemoryRecord));
    CHECK(data.compare(0, magic, MEMORY_MAGIC) == 0);
    MemoryRecord found[3];
    std::memcpy(found, data.data() + magic, sizeof(found));
    CHECK_EQUAL(found[0].phy, 2u);
    CHECK_EQUAL(found[0].value, 2u << 8 | 8);  // of the first 8 bytes
    CHECK_EQUAL(found[1].phy, 4u);
    CHECK_EQUAL(found[2].phy, 5u);
}

TEST(knobs_of_memory)
{
    Knobs knobs;
    std::string error;
    std::istringstream good("memory_log /tmp/a file\nmov_ss_ignored on\n");
    std::istringstream bad("mov_ss_ignored perhaps\n");
    std::istringstream empty("memory_log\n");

    CHECK(knobs_parse(good, &knobs, &error));
    CHECK(knobs.parts.at("memory_log") == "/tmp/a file");
    CHECK(knobs.mov_ss_ignored);
    CHECK(knobs.machine.empty());                           // a run's own
    CHECK_EQUAL(knobs.before_init, "mov_ss_ignored on\n");  // and that of a server at init
    CHECK(!knobs_parse(bad, &knobs, &error));
    CHECK(error.find("wanted on or off") != std::string::npos);
    CHECK(!knobs_parse(empty, &knobs, &error));
}

}  // namespace
