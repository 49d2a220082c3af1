// SPDX-License-Identifier: BSD-2-Clause
//
// The way of the exit at hand.
#include "exit_paths.h"

void PathLog::exit()
{
    steps_.clear();
    too_long_ = false;
}

void PathLog::step(uint64_t rip, uint64_t retired, uint64_t accesses)
{
    if (steps_.empty()) {
        accesses_ = accesses;
    } else if (retired == retired_) {
        steps_.pop_back();
    } else {
        steps_.back().second = static_cast<unsigned>(accesses - accesses_);
        accesses_ = accesses;
    }
    retired_ = retired;
    too_long_ = too_long_ || steps_.size() == PATH_STEPS_MAX;
    if (too_long_)
        steps_.clear();
    steps_.emplace_back(rip, 0);
}

Path PathLog::entry()
{
    Path steps;

    if (!too_long_)
        steps.swap(steps_);
    exit();
    return steps;
}
