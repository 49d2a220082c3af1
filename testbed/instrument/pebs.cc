// SPDX-License-Identifier: BSD-2-Clause
#include "pebs.h"

#include "ds.h"
#include "msr_index.h"

namespace {

// The numbers of the registers that the formats name one by one.
enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 };

// Reset values: those of the general counters, then of the fixed ones.
constexpr unsigned RESETS_GENERAL = 8;

// What a load's data source says: Linux's pebs_data_source[] for Skylake.
constexpr uint64_t SOURCE_L1 = 0x1;
constexpr uint64_t SOURCE_L2 = 0x3;
constexpr uint64_t SOURCE_L3 = 0x4;
constexpr uint64_t SOURCE_LOCAL_DRAM = 0xa;
// Of a store: it hit L1.
constexpr uint64_t SOURCE_STORE_L1_HIT = 0x1;

constexpr unsigned SIZE_SHIFT = 48;
constexpr uint64_t CONFIG_GROUPS = DATA_CFG_MEMORY | DATA_CFG_GPRS | DATA_CFG_XMMS | DATA_CFG_LBRS;

}  // namespace

PebsAccess pebs_load(uint64_t linear, CacheOutcome outcome)
{
    switch (outcome) {
    case CACHE_L1:
        return {linear, SOURCE_L1, 5};
    case CACHE_NEAR:
        return {linear, SOURCE_L2, 14};
    case CACHE_LLC_HIT:
        return {linear, SOURCE_L3, 50};
    case CACHE_LLC_MISS:
        break;
    }
    return {linear, SOURCE_LOCAL_DRAM, 200};
}

PebsAccess pebs_store(uint64_t linear, CacheOutcome outcome)
{
    return {linear, outcome == CACHE_L1 ? SOURCE_STORE_L1_HIT : 0, 0};
}

void Pebs::reset()
{
    enable_ = 0;
    data_cfg_ = 0;
    load_latency_ = 0;
}

uint64_t Pebs::capabilities() const
{
    if (format_ == PEBS_OFF)
        return 0;
    return PERF_CAP_PEBS_TRAP | PERF_CAP_PEBS_ARCH_REG |
           uint64_t{format_} << PERF_CAP_PEBS_FMT_SHIFT |
           (format_ == PEBS_FORMAT_ADAPTIVE ? PERF_CAP_PEBS_BASELINE : 0);
}

// The upper half: for format 3 a counter's load latency, for format 4 the fixed counters.
uint64_t Pebs::enable_valid() const
{
    uint64_t upper = format_ == PEBS_FORMAT_SKYLAKE ? shape_.general : shape_.fixed;

    return upper << GLOBAL_FIXED_SHIFT | shape_.general;
}

MsrResult Pebs::read_msr(uint32_t index, uint64_t *value) const
{
    if (format_ == PEBS_OFF)
        return MSR_ABSENT;
    if (index == IA32_PEBS_ENABLE)
        *value = enable_;
    else if (index == MSR_PEBS_LD_LAT)
        *value = load_latency_;
    else if (index == MSR_PEBS_DATA_CFG && format_ == PEBS_FORMAT_ADAPTIVE)
        *value = data_cfg_;
    else
        return MSR_ABSENT;
    return MSR_DONE;
}

MsrResult Pebs::write_msr(uint32_t index, uint64_t value)
{
    uint64_t *own, valid;

    if (format_ == PEBS_OFF)
        return MSR_ABSENT;
    if (index == IA32_PEBS_ENABLE) {
        own = &enable_;
        valid = enable_valid();
    } else if (index == MSR_PEBS_LD_LAT) {
        own = &load_latency_;
        valid = PEBS_LD_LAT_VALID;
    } else if (index == MSR_PEBS_DATA_CFG && format_ == PEBS_FORMAT_ADAPTIVE) {
        own = &data_cfg_;
        valid = CONFIG_GROUPS | DATA_CFG_LBR_ENTRIES << DATA_CFG_LBR_SHIFT;
    } else {
        return MSR_ABSENT;
    }
    if (value & ~valid)
        return MSR_FAULT;
    *own = value;
    return MSR_DONE;
}

uint64_t Pebs::counters() const
{
    return format_ == PEBS_FORMAT_ADAPTIVE ? enable_ : enable_ & shape_.general;
}

uint64_t Pebs::reset_offset(unsigned global_bit) const
{
    unsigned slot = global_bit < GLOBAL_FIXED_SHIFT
                        ? global_bit
                        : global_bit - GLOBAL_FIXED_SHIFT + RESETS_GENERAL;

    return DS_PEBS_RESET + slot * DS_FIELD;
}

std::vector<uint64_t> Pebs::record(uint64_t counters, bool adaptive, const PebsState &state,
                                   const PebsAccess &access, const BranchRecords &records) const
{
    if (format_ == PEBS_FORMAT_SKYLAKE)
        return skylake(counters, state, access);
    return groups(counters, adaptive ? data_cfg_ : 0, state, access, records);
}

std::vector<uint64_t> Pebs::skylake(uint64_t counters, const PebsState &state,
                                    const PebsAccess &access) const
{
    const uint64_t *gpr = state.gpr;
    std::vector<uint64_t> record = {state.flags, state.ip, gpr[RAX], gpr[RBX], gpr[RCX],
                                    gpr[RDX],    gpr[RSI], gpr[RDI], gpr[RBP], gpr[RSP]};

    record.insert(record.end(), gpr + R8, gpr + PEBS_GPRS);
    // The last but one is of transactions, which this processor has not.
    for (uint64_t word : {counters, access.linear, access.source, access.latency, state.eventing_ip,
                          uint64_t{0}, state.tsc})
        record.push_back(word);
    return record;
}

std::vector<uint64_t> Pebs::groups(uint64_t counters, uint64_t config, const PebsState &state,
                                   const PebsAccess &access, const BranchRecords &records) const
{
    const uint64_t *gpr = state.gpr;
    std::vector<uint64_t> record = {config, state.eventing_ip, counters, state.tsc};

    if (config & DATA_CFG_MEMORY)
        for (uint64_t word : {access.linear, access.source, access.latency, uint64_t{0}})
            record.push_back(word);
    if (config & DATA_CFG_GPRS) {
        record.push_back(state.flags);
        record.push_back(state.ip);
        for (unsigned n = 0; n < PEBS_GPRS; n++)
            record.push_back(gpr[n]);
    }
    if (config & DATA_CFG_XMMS)
        record.insert(record.end(), state.xmm, state.xmm + PEBS_XMM_WORDS);
    if (config & DATA_CFG_LBRS) {
        unsigned entries = (config >> DATA_CFG_LBR_SHIFT & DATA_CFG_LBR_ENTRIES) + 1;
        for (unsigned n = 0; n < entries; n++) {
            LbrEntry entry = records.newest(n);
            for (uint64_t word : {entry.from, entry.to, entry.info})
                record.push_back(word);
        }
    }
    record[0] |= record.size() * DS_FIELD << SIZE_SHIFT;
    return record;
}
