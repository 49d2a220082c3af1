// SPDX-License-Identifier: BSD-2-Clause
//
// The branch trace's file. Nothing is buffered across the end of the run: machine_end() flushes
// all streams.
#include "branch_trace.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "knobs.h"

namespace {

FILE *trace;

void append(const std::string &path, const TraceRecord &record)
{
    if (!trace)
        trace = std::fopen(path.c_str(), "wb");
    if (trace && std::fwrite(&record, sizeof(record), 1, trace) == 1)
        return;
    std::fprintf(stderr, "testbed: %s: cannot write the branch trace\n", path.c_str());
    std::exit(EXIT_FAILURE);
}

}  // namespace

bool branch_trace_parse(const std::string &text, BranchTraceKnob *trace)
{
    std::istringstream words(text);
    std::string regions;
    uint64_t first, last;

    if (!(words >> regions) || !knob_range(regions, &first, &last) || last > UINT32_MAX ||
        !std::getline(words >> std::ws, trace->path))
        return false;
    trace->first = static_cast<uint32_t>(first);
    trace->last = static_cast<uint32_t>(last);
    return true;
}

const char *branch_trace_wanted(const std::string &text)
{
    BranchTraceKnob trace;

    return branch_trace_parse(text, &trace) ? nullptr : "REGION[-REGION] PATH";
}

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

bool BranchTrace::region(uint32_t id, bool begins, const BranchTraceKnob &knob, unsigned processor,
                         uint64_t cycles)
{
    TraceRecord record = {};

    if (knob.path.empty() || id < knob.first || id > knob.last || (!begins && open_ == 0))
        return false;
    open_ += begins ? 1 : -1u;
    record.from = id;
    record.cycles = cycles;
    record.kind = begins ? TRACE_BEGIN : TRACE_END;
    record.processor = static_cast<uint8_t>(processor);
    append(knob.path, record);
    return true;
}

void BranchTrace::branch(const TracedBranch &branch, unsigned processor)
{
    // The region's begin has opened it.
    append("", trace_record(branch, processor));
}
