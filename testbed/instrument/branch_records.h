/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the two kinds of branch records have in common: the ring of Skylake (lbr.h) and the
 * architectural ones (arch_lbr.h). A processor has one kind.
 */
#pragma once

#include <cstdint>

#include "branch.h"
#include "pmu.h"

constexpr unsigned LBR_DEPTH = 32;

struct Branch {
    BranchKind kind;
    uint64_t from;
    uint64_t to;
    bool user; /* privilege at its target */
    bool mispredicted;
    uint64_t cycles; /* since the machine was made */
};

/* As the MSRs have it. */
struct LbrEntry {
    uint64_t from, to, info;
};

class BranchRecords {
public:
    virtual ~BranchRecords() = default;
    virtual MsrResult read_msr(uint32_t index, uint64_t *value) const = 0;
    virtual MsrResult write_msr(uint32_t index, uint64_t value) = 0;
    /* True: the records have changed. */
    virtual bool record(const Branch &branch) = 0;
    /* The n-th newest record from 0 on; past the oldest there are none. */
    virtual LbrEntry newest(unsigned n) const = 0;

protected:
    /* What FROM and TO take: 48 bits, and their sign above. */
    static bool canonical(uint64_t address)
    {
        int64_t top = static_cast<int64_t>(address) >> 47;

        return top == 0 || top == -1;
    }
};
