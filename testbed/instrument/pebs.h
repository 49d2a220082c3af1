/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Processor event based sampling by the debug store: its MSRs and its records, in format 3
 * (Skylake) or in format 4 with the adaptive baseline (Ice Lake). Which counter has a record due is
 * the PMU's (pmu.h), where the record goes is ds.h's. Knows no Bochs. SDM Vol. 3, "Processor Event
 * Based Sampling (PEBS)", "Adaptive PEBS"; layouts and bits as Linux has them
 * (arch/x86/events/intel/ds.c, asm/perf_event.h).
 */
#pragma once

#include <cstdint>
#include <vector>

#include "branch_records.h"
#include "microarch.h"
#include "pmu.h"

enum PebsFormat { PEBS_OFF = 0, PEBS_FORMAT_SKYLAKE = 3, PEBS_FORMAT_ADAPTIVE = 4 };

constexpr unsigned PEBS_GPRS = 16; /* as instructions number them: RAX, RCX, RDX, RBX, RSP, ... */
constexpr unsigned PEBS_XMM_WORDS = 32;

/* The processor at the boundary after the instruction that the record is of. */
struct PebsState {
    uint64_t eventing_ip = 0; /* that instruction */
    uint64_t ip = 0;          /* the next one */
    uint64_t flags = 0;
    uint64_t gpr[PEBS_GPRS] = {};
    uint64_t xmm[PEBS_XMM_WORDS] = {};
    uint64_t tsc = 0;
};

/* What a load or store did. Latencies are stand-ins: they tell the cache model's levels apart. */
struct PebsAccess {
    uint64_t linear = 0;
    uint64_t source = 0;
    uint64_t latency = 0;
};
PebsAccess pebs_load(uint64_t linear, CacheOutcome outcome);
PebsAccess pebs_store(uint64_t linear, CacheOutcome outcome);

class Pebs {
public:
    Pebs(PebsFormat format, const PmuShape &shape) : format_(format), shape_(shape) {}
    void reset();

    PebsFormat format() const { return format_; }
    /* Its bits of IA32_PERF_CAPABILITIES. */
    uint64_t capabilities() const;
    /* IA32_PEBS_ENABLE, MSR_PEBS_DATA_CFG and MSR_PEBS_LD_LAT; absent where the format is off. */
    MsrResult read_msr(uint32_t index, uint64_t *value) const;
    MsrResult write_msr(uint32_t index, uint64_t value);

    /* The counters that are enabled for it, by their bits in IA32_PERF_GLOBAL_CTRL. */
    uint64_t counters() const;
    /* Loads of more than this latency are events of MEM_TRANS_RETIRED.LOAD_LATENCY. */
    uint64_t load_latency() const { return load_latency_; }
    /* Where the save area has the reset value of the counter with that bit: an offset. */
    uint64_t reset_offset(unsigned global_bit) const;

    /* The record of these counters. `adaptive`: one of them asks for what MSR_PEBS_DATA_CFG says,
     * else format 4 has the basic group alone. */
    std::vector<uint64_t> record(uint64_t counters, bool adaptive, const PebsState &state,
                                 const PebsAccess &access, const BranchRecords &records) const;

private:
    uint64_t enable_valid() const;
    std::vector<uint64_t> skylake(uint64_t counters, const PebsState &state,
                                  const PebsAccess &access) const;
    std::vector<uint64_t> groups(uint64_t counters, uint64_t config, const PebsState &state,
                                 const PebsAccess &access, const BranchRecords &records) const;

    PebsFormat format_;
    PmuShape shape_;
    uint64_t enable_ = 0;
    uint64_t data_cfg_ = 0;
    uint64_t load_latency_ = 0;
};
