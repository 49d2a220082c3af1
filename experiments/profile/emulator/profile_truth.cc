// SPDX-License-Identifier: BSD-2-Clause
//
// The file of the knob `profile_truth`.
#include "profile_truth.h"

#include <cinttypes>
#include <cstdlib>

namespace {

/* The counters' bits; those of freezes and buffers are no overflow. */
constexpr uint64_t STATUS_COUNTERS = 0x0000ffff0000ffff;

}  // namespace

bool Truth::region(const RegionKnob &knob, uint32_t id, bool begins, uint64_t outside_root,
                   uint64_t status)
{
    if (!knob.has(id) || begins == open_)
        return false;
    if (!file_)
        file_ = std::fopen(knob.path.c_str(), "w");
    if (!file_) {
        std::fprintf(stderr, "testbed: %s: cannot write the truth of a profile\n",
                     knob.path.c_str());
        std::exit(EXIT_FAILURE);
    }
    if (!begins)
        write_counts();
    std::fprintf(file_, "%s %u\n", begins ? "begin" : "end", id);
    open_ = begins;
    outside_root_ = seen_ = outside_root;
    status_ = status;
    last_ = {};
    return true;
}

void Truth::status(uint64_t retired, uint64_t outside_root, uint64_t status)
{
    // Where nothing has retired outside root mode, root mode itself has set the bit: it hands a
    // guest its own back.
    if (outside_root != seen_ && (status & ~status_ & STATUS_COUNTERS) != 0)
        std::fprintf(file_, "overflow %" PRIx64 " %" PRIx64 " %d %d %" PRIu64 " %" PRIu64 "\n",
                     last_.cr3, last_.rip, last_.user, last_.interrupts, retired, outside_root);
    status_ = status;
    seen_ = outside_root;
}

void Truth::executes(const TruthPlace &place, uint64_t retired, uint64_t outside_root,
                     uint64_t status)
{
    if (outside_root != outside_root_ && last_.rip != 0)
        counts_[last_]++;
    this->status(retired, outside_root, status);
    last_ = place;
    outside_root_ = outside_root;
}

void Truth::interrupt(unsigned vector, const TruthPlace &from, uint64_t retired,
                      uint64_t outside_root)
{
    std::fprintf(file_, "interrupt %u %" PRIx64 " %" PRIx64 " %d %" PRIu64 " %" PRIu64 "\n", vector,
                 from.cr3, from.rip, from.user, retired, outside_root);
}

void Truth::write_counts()
{
    for (const auto &[place, count] : counts_)
        std::fprintf(file_, "count %" PRIx64 " %" PRIx64 " %d %d %" PRIu64 "\n", place.cr3,
                     place.rip, place.user, place.interrupts, count);
    counts_.clear();
}
