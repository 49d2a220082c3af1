/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The last branch records of one processor: 32 of them with FROM, TO and INFO, the top-of-stack
 * pointer and the filter. Knows no Bochs. SDM Vol. 3, "Last Branch, Interrupt, and Exception
 * Recording for Processors based on Skylake Microarchitecture".
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
    bool user;          /* privilege at its target */
    bool mispredicted;
    uint64_t cycles;    /* since the machine was made */
};

/* As the MSRs have it. */
struct LbrEntry {
    uint64_t from, to, info;
};

/* Records of either kind, as a PEBS record takes them. */
class BranchRecords {
public:
    virtual ~BranchRecords() = default;
    /* The n-th newest record from 0 on; behind the oldest there are none. */
    virtual LbrEntry newest(unsigned n) const = 0;
};

class Lbr : public BranchRecords {
public:
    void reset();
    MsrResult read_msr(uint32_t index, uint64_t *value) const;
    MsrResult write_msr(uint32_t index, uint64_t value);
    /* True: the records have changed. */
    bool record(const Branch &branch);
    LbrEntry newest(unsigned n) const override;

private:
    bool filtered(const Branch &branch) const;
    void push(const Branch &branch);

    uint64_t from_[LBR_DEPTH] = {};
    uint64_t to_[LBR_DEPTH] = {};
    uint64_t info_[LBR_DEPTH] = {};
    uint64_t select_ = 0;
    unsigned tos_ = 0;
    uint64_t last_cycles_ = 0;
};
