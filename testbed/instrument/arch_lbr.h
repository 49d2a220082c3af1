/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The architectural last branch records of one processor, and what CPUID says of them. The newest
 * is always record 0. Knows no Bochs. SDM Vol. 3, "Last Branch Records"; Vol. 2, "CPUID", leaf 1CH.
 */
#pragma once

#include <cstdint>

#include "branch_records.h"
#include "pmu_cpuid.h"

class ArchLbr : public BranchRecords {
public:
    void reset();
    /* Its deepest stack has so many records: 8, 16 or LBR_DEPTH. */
    void set_most(unsigned most) { most_ = depth_ = most; }
    MsrResult read_msr(uint32_t index, uint64_t *value) const override;
    MsrResult write_msr(uint32_t index, uint64_t value) override;
    bool record(const Branch &branch) override;
    LbrEntry newest(unsigned n) const override;

    /* IA32_LBR_CTL, also by VM entry and exit, which know whether a value is good. */
    uint64_t ctl() const { return ctl_; }
    void set_ctl(uint64_t value) { ctl_ = value; }
    static bool ctl_valid(uint64_t value);
    bool enabled() const;
    /* SDM Vol. 3, "Interaction with Other Processor Features": a debug exception turns them off. */
    void debug_exception();

private:
    uint64_t *find(uint32_t index);
    void push(const Branch &branch);
    void pop();

    LbrEntry records_[LBR_DEPTH] = {};
    uint64_t ctl_ = 0;
    unsigned most_ = LBR_DEPTH;
    unsigned depth_ = LBR_DEPTH;
    uint64_t last_cycles_ = 0;
};

/* Writes the part of architectural LBRs into the result of a leaf, of a processor with `most`
 * records whose last leaf is `own`. */
void arch_lbr_cpuid(unsigned most, uint32_t own, uint32_t extended, uint32_t leaf, uint32_t subleaf,
                    CpuidResult *result);
