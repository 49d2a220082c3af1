/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The registers of Intel PT and what may be written to them, and what CPUID says of it: leaf 14H is
 * an Ice Lake's, with PTWRITE where the knob has it. What a value then means is pt.h's. Knows no
 * Bochs. SDM Vol. 3, "Intel Processor Trace", "Enabling and Configuration MSRs"; section numbers in
 * the files of PT are those of its chapter (2.7.2 for 36.2.7.2).
 */
#pragma once

#include <cstdint>

#include "pmu_cpuid.h"

/* CPUID.14H.1:EAX[2:0] */
constexpr unsigned PT_RANGES = 2;

/* What differs between processors that have it. */
struct PtShape {
    bool ptwrite = false;
    unsigned address_bits = 39; /* MAXPHYADDR */
    unsigned linear_bits = 48;
};

/* Where the trace goes to: the current table or region, and the place in it. */
struct PtOutputPointers {
    uint64_t base = 0;
    uint32_t mask = 0x7f; /* MaskOrTableOffset, with the lower seven bits */
    uint32_t offset = 0;
};

class PtMsrs {
public:
    explicit PtMsrs(const PtShape &shape) : shape_(shape) {}

    MsrResult read_msr(uint32_t index, uint64_t *value) const;
    /* All but IA32_RTIT_CTL, whose value is only checked: pt.h sets it. */
    MsrResult write_msr(uint32_t index, uint64_t value);
    /* No reserved bit is set. */
    bool ctl_valid(uint64_t value) const;

    uint64_t ctl() const { return ctl_; }
    void set_ctl(uint64_t value) { ctl_ = value; }
    /* Bits of IA32_RTIT_STATUS, but PacketByteCnt. */
    bool status(uint64_t bits) const { return (status_ & bits) != 0; }
    void set_status(uint64_t bits, bool on) { status_ = on ? status_ | bits : status_ & ~bits; }
    uint32_t byte_count() const { return byte_count_; }
    void set_byte_count(uint32_t count);
    /* A field of four bits. */
    unsigned field(unsigned shift) const;
    uint64_t cr3_match() const { return cr3_match_; }
    uint64_t range_begin(unsigned n) const { return ranges_[2 * n]; }
    uint64_t range_end(unsigned n) const { return ranges_[2 * n + 1]; }
    /* 0: unused, 1: FilterEn, 2: TraceStop. */
    unsigned range_use(unsigned n) const;
    PtOutputPointers &output() { return output_; }

private:
    PtShape shape_;
    uint64_t ctl_ = 0;
    uint64_t status_ = 0;
    uint32_t byte_count_ = 0;
    uint64_t cr3_match_ = 0;
    uint64_t ranges_[2 * PT_RANGES] = {};
    PtOutputPointers output_;
};

/* Writes the part of PT into the result of a leaf. */
void pt_cpuid(bool ptwrite, uint32_t leaf, uint32_t subleaf, CpuidResult *result);
