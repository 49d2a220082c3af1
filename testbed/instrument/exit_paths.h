/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which instructions root mode executes between a VM exit and the next entry, in their order. The
 * ledger keeps each way once, with the number of exits that went it. Knows no Bochs.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

/* An instruction's address, and how often it accessed the VMCS. */
using PathStep = std::pair<uint64_t, unsigned>;
using Path = std::vector<PathStep>;

/* A longer way is in no list: nothing but a loop that does not end is so long. */
constexpr size_t PATH_STEPS_MAX = 1u << 20;

class PathLog {
public:
    void exit();
    /* Before each instruction: its address, the instructions that root mode has retired, and the
     * VMCS accesses so far. One that faulted or was interrupted has not retired and is forgotten.
     */
    void step(uint64_t rip, uint64_t retired, uint64_t accesses);
    /* VMLAUNCH or VMRESUME is in flight and is the last step. Empty: there is nothing to keep. */
    Path entry();

private:
    Path steps_;
    bool too_long_ = false;
    uint64_t retired_ = 0;
    uint64_t accesses_ = 0;
};
