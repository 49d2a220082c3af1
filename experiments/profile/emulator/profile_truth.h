/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a profile of a region should be: how often each instruction has retired, and of each
 * overflow of a counter where it was and where its NMI came. Format: README.md. Knows no Bochs.
 */
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <tuple>

#include "region_knob.h"

struct TruthPlace {
    uint64_t cr3 = 0; /* whose it is: 0 of the kernel's */
    uint64_t rip = 0;
    bool user = false;
    bool interrupts = false; /* RFLAGS.IF */

    bool operator<(const TruthPlace &other) const
    {
        return std::tie(cr3, rip, user, interrupts) <
               std::tie(other.cr3, other.rip, other.user, other.interrupts);
    }
};

class Truth {
public:
    bool on() const { return file_ != nullptr && open_; }
    /* True: the region is wanted. */
    bool region(const RegionKnob &knob, uint32_t id, bool begins, uint64_t outside_root,
                uint64_t status);
    /* Before an instruction outside root mode: where it is, how many have retired, in all modes and
     * outside root mode, and GLOBAL_STATUS. */
    void executes(const TruthPlace &place, uint64_t retired, uint64_t outside_root,
                  uint64_t status);
    /* Before any: GLOBAL_STATUS, whose new bits are the last one's outside root mode. */
    void status(uint64_t retired, uint64_t outside_root, uint64_t status);
    /* An NMI, or an interrupt with this vector, interrupts here. */
    void interrupt(unsigned vector, const TruthPlace &from, uint64_t retired,
                   uint64_t outside_root);

private:
    void write_counts();

    FILE *file_ = nullptr;
    bool open_ = false;
    TruthPlace last_;
    uint64_t outside_root_ = 0, status_ = 0;
    uint64_t seen_ = 0; /* outside root mode, when the status was looked at */
    std::map<TruthPlace, uint64_t> counts_;
};
