// SPDX-License-Identifier: BSD-2-Clause
//
// What becomes a record of the memory log.
#include "memory_log.h"

#include <algorithm>

#include "record_file.h"

namespace {

constexpr uint32_t VALUE_BYTES = 8;

RecordFile file("the memory log", MEMORY_MAGIC);

}  // namespace

void memory_log_append(const std::string &path, const MemoryRecord &record)
{
    file.append(path, &record, sizeof(record));
}

void MemoryLog::commit(const std::string &path, const MemoryValue &value)
{
    for (MemoryRecord &record : pending_) {
        record.value = value(record.phy, std::min(record.len, VALUE_BYTES));
        memory_log_append(path, record);
    }
    forget();
}
