// SPDX-License-Identifier: BSD-2-Clause
//
// The flow log's file. Nothing is buffered across the end of the run: machine_end() flushes all
// streams.
#include "flow_log.h"

#include <cstdio>
#include <cstdlib>

namespace {

FILE *file;

void append(const std::string &path, const FlowRecord &record)
{
    bool good = true;

    if (!file) {
        file = std::fopen(path.c_str(), "wb");
        good = file && std::fwrite(FLOW_MAGIC, sizeof(FLOW_MAGIC) - 1, 1, file) == 1;
    }
    if (good && std::fwrite(&record, sizeof(record), 1, file) == 1)
        return;
    std::fprintf(stderr, "testbed: %s: cannot write the flow log\n", path.c_str());
    std::exit(EXIT_FAILURE);
}

}  // namespace

void FlowLog::event(const FlowRecord &record, const std::string &path)
{
    executes(record, path);
    append(path, record);
    asleep_ = record.kind == FLOW_HLT || record.kind == FLOW_MWAIT;
}

void FlowLog::executes(FlowRecord record, const std::string &path)
{
    if (!asleep_)
        return;
    asleep_ = false;
    record.kind = FLOW_WAKE;
    record.value = 0;
    append(path, record);
}
