// SPDX-License-Identifier: BSD-2-Clause
//
// The memory log's file. Nothing is buffered across the end of the run: machine_end() flushes all
// streams.
#include "memory_log.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr uint32_t VALUE_BYTES = 8;

FILE *file;

}  // namespace

void memory_log_append(const std::string &path, const MemoryRecord &record)
{
    bool good = true;

    if (!file) {
        file = std::fopen(path.c_str(), "wb");
        good = file && std::fwrite(MEMORY_MAGIC, sizeof(MEMORY_MAGIC) - 1, 1, file) == 1;
    }
    if (good && std::fwrite(&record, sizeof(record), 1, file) == 1)
        return;
    std::fprintf(stderr, "testbed: %s: cannot write the memory log\n", path.c_str());
    std::exit(EXIT_FAILURE);
}

void MemoryLog::commit(const std::string &path, const MemoryValue &value)
{
    for (MemoryRecord &record : pending_) {
        record.value = value(record.phy, std::min(record.len, VALUE_BYTES));
        memory_log_append(path, record);
    }
    forget();
}
