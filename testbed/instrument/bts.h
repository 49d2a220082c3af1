/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The branch trace store: each taken branch is a record of 24 bytes in the debug store's buffer.
 * Holds what the instruction at hand has branched until that is stored. Knows no Bochs. SDM Vol. 3,
 * "Branch Trace Store (BTS)" and "IA32_DEBUGCTL MSR".
 */
#pragma once

#include <cstdint>
#include <vector>

#include "ds.h"

/* These values of IA32_DEBUGCTL trace branches into the buffer at all. */
bool bts_on(uint64_t debugctl);

class Bts {
public:
    /* A branch is taken. `user`: the privilege at its target, as with the branch records. */
    void branch(uint64_t debugctl, uint64_t from, uint64_t to, bool user, bool mispredicted);
    bool empty() const { return branches_.empty(); }
    /* The instruction does not retire. */
    void forget() { branches_.clear(); }
    /* Stores them. True: a PMI is wanted. Where BTINT is clear the buffer is circular. */
    bool store(DsMemory &memory, uint64_t area, uint64_t debugctl);

private:
    std::vector<std::vector<uint64_t>> branches_;
};
