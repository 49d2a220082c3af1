// SPDX-License-Identifier: BSD-2-Clause
#include "pt_msrs.h"

#include "msr_index.h"

namespace {

constexpr uint32_t LEAF_EXTENDED_FEATURES = 7;
constexpr uint32_t FEATURES_EBX_PT = 1u << 25;
constexpr uint32_t LEAF_PT = 0x14;
constexpr uint32_t PT_EBX_PTWRITE = 1u << 4;

// Leaf 14H of a Core i7-1065G7, as Bochs' own dump of one has it. Section 3.1, Tables 36-11, 36-12.
// EBX: CR3 filtering; configurable PSB and cycle-accurate mode; IP filtering, TraceStop and MSRs
// that outlive a warm reset; MTC. ECX: ToPA with many entries, single range; IPs are RIPs.
constexpr CpuidResult PT_LEAF = {1, 0xf, 7, 0};
constexpr uint32_t MTC_PERIODS = 0x0249;
constexpr uint32_t CYCLE_THRESHOLDS = 0x1fff;
constexpr uint32_t PSB_FREQUENCIES = 0x003f;
constexpr CpuidResult PT_SUBLEAF_1 = {MTC_PERIODS << 16 | PT_RANGES,
                                      PSB_FREQUENCIES << 16 | CYCLE_THRESHOLDS, 0, 0};

// Section 2.7.2, Table 36-6: the bits that leaf 14H has, and those that come with PTWRITE.
constexpr uint64_t CTL_BITS = RTIT_CTL_TRACEEN | RTIT_CTL_CYCEN | RTIT_CTL_OS | RTIT_CTL_USER |
                              RTIT_CTL_CR3FILTER | RTIT_CTL_TOPA | RTIT_CTL_MTCEN | RTIT_CTL_TSCEN |
                              RTIT_CTL_DISRETC | RTIT_CTL_BRANCHEN;
constexpr uint64_t CTL_FIELDS = RTIT_CTL_FIELD << RTIT_CTL_MTCFREQ_SHIFT |
                                RTIT_CTL_FIELD << RTIT_CTL_CYCTHRESH_SHIFT |
                                RTIT_CTL_FIELD << RTIT_CTL_PSBFREQ_SHIFT;
constexpr uint64_t CTL_PTWRITE = RTIT_CTL_PTWEN | RTIT_CTL_FUPONPTW;
constexpr unsigned RANGE_USES = 3;

// Section 2.7.4, Table 36-7. The three enables are the processor's, writes of them are ignored.
constexpr uint64_t STATUS_ENABLES = RTIT_STATUS_FILTEREN | RTIT_STATUS_CONTEXTEN |
                                    RTIT_STATUS_TRIGGEREN;
constexpr uint64_t STATUS_WRITABLE = RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED;
constexpr uint64_t STATUS_VALID = STATUS_ENABLES | STATUS_WRITABLE |
                                  RTIT_STATUS_BYTECNT << RTIT_STATUS_BYTECNT_SHIFT;

// Sections 2.7.6 to 2.7.8.
constexpr uint64_t CR3_MATCH_RESERVED = 0x1f;
constexpr uint64_t OUTPUT_BASE_RESERVED = 0x7f;
constexpr uint32_t LOWER_MASK = 0x7f;

bool canonical(uint64_t address, unsigned bits)
{
    int64_t top = static_cast<int64_t>(address) >> (bits - 1);

    return top == 0 || top == -1;
}

unsigned field_of(uint64_t value, unsigned shift)
{
    return static_cast<unsigned>(value >> shift & RTIT_CTL_FIELD);
}

}  // namespace

unsigned PtMsrs::field(unsigned shift) const { return field_of(ctl_, shift); }

unsigned PtMsrs::range_use(unsigned n) const
{
    return field(RTIT_CTL_ADDR0_CFG_SHIFT + n * RTIT_CTL_FIELD_BITS);
}

void PtMsrs::set_byte_count(uint32_t count)
{
    byte_count_ = count & static_cast<uint32_t>(RTIT_STATUS_BYTECNT);
}

bool PtMsrs::ctl_valid(uint64_t value) const
{
    uint64_t valid = CTL_BITS | CTL_FIELDS | (shape_.ptwrite ? CTL_PTWRITE : 0);

    for (unsigned n = 0; n < PT_RANGES; n++) {
        unsigned shift = RTIT_CTL_ADDR0_CFG_SHIFT + n * RTIT_CTL_FIELD_BITS;
        valid |= RTIT_CTL_FIELD << shift;
        if (field_of(value, shift) >= RANGE_USES)
            return false;
    }
    return (value & ~valid) == 0 && (MTC_PERIODS >> field_of(value, RTIT_CTL_MTCFREQ_SHIFT) & 1) &&
           (CYCLE_THRESHOLDS >> field_of(value, RTIT_CTL_CYCTHRESH_SHIFT) & 1) &&
           (PSB_FREQUENCIES >> field_of(value, RTIT_CTL_PSBFREQ_SHIFT) & 1);
}

MsrResult PtMsrs::read_msr(uint32_t index, uint64_t *value) const
{
    if (index == IA32_RTIT_CTL)
        *value = ctl_;
    else if (index == IA32_RTIT_STATUS)
        *value = status_ | uint64_t{byte_count_} << RTIT_STATUS_BYTECNT_SHIFT;
    else if (index == IA32_RTIT_CR3_MATCH)
        *value = cr3_match_;
    else if (index == IA32_RTIT_OUTPUT_BASE)
        *value = output_.base;
    else if (index == IA32_RTIT_OUTPUT_MASK_PTRS)
        *value = uint64_t{output_.offset} << 32 | output_.mask;
    else if (index - IA32_RTIT_ADDR0_A < 2 * PT_RANGES)
        *value = ranges_[index - IA32_RTIT_ADDR0_A];
    else
        return MSR_ABSENT;
    return MSR_DONE;
}

MsrResult PtMsrs::write_msr(uint32_t index, uint64_t value)
{
    uint64_t old;

    if (read_msr(index, &old) == MSR_ABSENT)
        return MSR_ABSENT;
    // Section 2.7.3, "Other Writes to IA32_RTIT_CTL": only what clears TraceEn, or changes nothing.
    if (index == IA32_RTIT_CTL)
        return ctl_valid(value) && (!(ctl_ & value & RTIT_CTL_TRACEEN) || value == ctl_)
                   ? MSR_DONE
                   : MSR_FAULT;
    // Section 2.7.1: none of the others while TraceEn is set.
    if (ctl_ & RTIT_CTL_TRACEEN)
        return MSR_FAULT;
    if (index == IA32_RTIT_STATUS) {
        if (value & ~STATUS_VALID)
            return MSR_FAULT;
        status_ = (status_ & STATUS_ENABLES) | (value & STATUS_WRITABLE);
        set_byte_count(static_cast<uint32_t>(value >> RTIT_STATUS_BYTECNT_SHIFT));
    } else if (index == IA32_RTIT_CR3_MATCH) {
        if (value & CR3_MATCH_RESERVED)
            return MSR_FAULT;
        cr3_match_ = value;
    } else if (index == IA32_RTIT_OUTPUT_BASE) {
        if ((value & OUTPUT_BASE_RESERVED) || value >> shape_.address_bits != 0)
            return MSR_FAULT;
        output_.base = value;
    } else if (index == IA32_RTIT_OUTPUT_MASK_PTRS) {
        output_.mask = static_cast<uint32_t>(value) | LOWER_MASK;
        output_.offset = static_cast<uint32_t>(value >> 32);
    } else {
        // Section 2.7.5.
        if (!canonical(value, shape_.linear_bits))
            return MSR_FAULT;
        ranges_[index - IA32_RTIT_ADDR0_A] = value;
    }
    return MSR_DONE;
}

void pt_cpuid(bool ptwrite, uint32_t leaf, uint32_t subleaf, CpuidResult *result)
{
    if (leaf == LEAF_EXTENDED_FEATURES && subleaf == 0)
        result->ebx |= FEATURES_EBX_PT;
    if (leaf != LEAF_PT)
        return;
    *result = subleaf == 0 ? PT_LEAF : subleaf == 1 ? PT_SUBLEAF_1 : CpuidResult();
    if (subleaf == 0 && ptwrite)
        result->ebx |= PT_EBX_PTWRITE;
}
