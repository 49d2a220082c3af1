// SPDX-License-Identifier: BSD-2-Clause
//
// What becomes a record of the branch trace.
#include "branch_trace.h"

#include "record_file.h"

namespace {

RecordFile file("the branch trace", "");

}  // namespace

TraceRecord trace_record(const TracedBranch &branch, unsigned processor)
{
    TraceRecord record = {};

    record.from = branch.from;
    record.to = branch.to;
    record.cycles = branch.cycles;
    record.kind = branch.event ? TRACE_EVENT : static_cast<uint8_t>(branch.kind);
    record.flags = static_cast<uint8_t>((branch.mispredicted ? TRACE_MISPREDICTED : 0) |
                                        (branch.user_before ? TRACE_USER_BEFORE : 0) |
                                        (branch.user_after ? TRACE_USER_AFTER : 0));
    record.vector = static_cast<uint8_t>(branch.vector);
    record.processor = static_cast<uint8_t>(processor);
    return record;
}

bool BranchTrace::region(uint32_t id, bool begins, const RegionKnob &knob, unsigned processor,
                         uint64_t cycles)
{
    TraceRecord record = {};

    if (!knob.has(id) || (!begins && open_ == 0))
        return false;
    open_ += begins ? 1 : -1u;
    record.from = id;
    record.cycles = cycles;
    record.kind = begins ? TRACE_BEGIN : TRACE_END;
    record.processor = static_cast<uint8_t>(processor);
    file.append(knob.path, &record, sizeof(record));
    return true;
}

void BranchTrace::branch(const TracedBranch &branch, unsigned processor)
{
    const TraceRecord record = trace_record(branch, processor);

    // The region's begin has opened the file.
    file.append("", &record, sizeof(record));
}
