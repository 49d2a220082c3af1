/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The last branch records of one processor: 32 of them with FROM, TO and INFO, the top-of-stack
 * pointer and the filter. Knows no Bochs. SDM Vol. 3, "Last Branch, Interrupt, and Exception
 * Recording for Processors based on Skylake Microarchitecture".
 */
#pragma once

#include <cstdint>

#include "branch_records.h"

class Lbr : public BranchRecords {
public:
    void reset();
    MsrResult read_msr(uint32_t index, uint64_t *value) const override;
    MsrResult write_msr(uint32_t index, uint64_t value) override;
    bool record(const Branch &branch) override;
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
