/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The exact list of branches that tools of the guest are checked against: every branch taken and
 * every event delivered outside root mode while a region of the knob `branch_trace` is open, of all
 * processors in one file. Format: README.md, "Branch trace". Knows no Bochs.
 */
#pragma once

#include <cstdint>

#include "branch.h"
#include "region_knob.h"

/* The file's records; in the processor's own byte order. */
struct TraceRecord {
    uint64_t from;
    uint64_t to;
    uint64_t cycles;
    uint8_t kind; /* BranchKind, or TRACE_* */
    uint8_t flags;
    uint8_t vector;
    uint8_t processor;
    uint32_t unused;
};

constexpr uint8_t TRACE_EVENT = 16;
constexpr uint8_t TRACE_BEGIN = 17; /* `from` is the region's number */
constexpr uint8_t TRACE_END = 18;
constexpr uint8_t TRACE_MISPREDICTED = 1;
constexpr uint8_t TRACE_USER_BEFORE = 2;
constexpr uint8_t TRACE_USER_AFTER = 4;

TraceRecord trace_record(const TracedBranch &branch, unsigned processor);

/* Which of a processor's regions want a trace, and how many of them are open. */
class BranchTrace {
public:
    bool on() const { return open_ != 0; }
    /* True: this region is traced. The file is begun with the first one. */
    bool region(uint32_t id, bool begins, const RegionKnob &knob, unsigned processor,
                uint64_t cycles);
    void branch(const TracedBranch &branch, unsigned processor);

private:
    unsigned open_ = 0;
};
