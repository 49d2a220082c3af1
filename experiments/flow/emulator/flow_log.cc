// SPDX-License-Identifier: BSD-2-Clause
//
// What becomes a record of the flow log.
#include "flow_log.h"

#include "record_file.h"

namespace {

RecordFile file("the flow log", FLOW_MAGIC);

}  // namespace

void FlowLog::event(const FlowRecord &record, const std::string &path)
{
    executes(record, path);
    file.append(path, &record, sizeof(record));
    asleep_ = record.kind == FLOW_HLT || record.kind == FLOW_MWAIT;
}

void FlowLog::executes(FlowRecord record, const std::string &path)
{
    if (!asleep_)
        return;
    asleep_ = false;
    record.kind = FLOW_WAKE;
    record.value = 0;
    file.append(path, &record, sizeof(record));
}
