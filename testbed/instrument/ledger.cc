// SPDX-License-Identifier: BSD-2-Clause
//
// Counting for the ledger: the run's total and every region that is open get each event.
#include "ledger.h"

#include <algorithm>
#include <numeric>

#include "msr_index.h"
#include "pmu.h"

namespace {

struct MsrRange {
    uint32_t first, last;
};

// Counters and their controls, debug store, branch records, Processor Trace: each range is as long
// as any model has it.
constexpr MsrRange pmu_msrs[] = {
    {IA32_PMC0, IA32_PMC0 + PMU_GENERAL_LEGACY - 1},
    {IA32_PERFEVTSEL0, IA32_PERFEVTSEL0 + PMU_GENERAL_LEGACY - 1},
    {MSR_OFFCORE_RSP_0, MSR_OFFCORE_RSP_1},
    {MSR_LBR_SELECT, MSR_LASTBRANCH_TOS},
    {IA32_DEBUGCTL, IA32_DEBUGCTL},
    {IA32_FIXED_CTR0, IA32_FIXED_CTR0 + PMU_FIXED_MAX - 1},
    {MSR_PERF_METRICS, MSR_PERF_METRICS},
    {IA32_PERF_CAPABILITIES, IA32_PERF_CAPABILITIES},
    {IA32_FIXED_CTR_CTRL, IA32_PERF_GLOBAL_INUSE},
    {IA32_PEBS_ENABLE, MSR_PEBS_DATA_CFG},
    {MSR_PEBS_LD_LAT, MSR_PEBS_FRONTEND},
    {IA32_A_PMC0, IA32_A_PMC0 + PMU_GENERAL_LEGACY - 1},
    {IA32_RTIT_OUTPUT_BASE, IA32_RTIT_OUTPUT_MASK_PTRS},
    {IA32_RTIT_CTL, IA32_RTIT_CR3_MATCH},
    {IA32_RTIT_ADDR0_A, IA32_RTIT_ADDR0_A + 7},
    {IA32_DS_AREA, IA32_DS_AREA},
    {MSR_LASTBRANCH_0_FROM_IP, MSR_LASTBRANCH_0_FROM_IP + 31},
    {MSR_LASTBRANCH_0_TO_IP, MSR_LASTBRANCH_0_TO_IP + 31},
    {MSR_LBR_INFO_0, MSR_LBR_INFO_0 + 31},
    {IA32_LBR_0_INFO, IA32_LBR_0_INFO + 31},
    {IA32_LBR_CTL, IA32_LBR_DEPTH},
    {IA32_LBR_0_FROM_IP, IA32_LBR_0_FROM_IP + 31},
    {IA32_LBR_0_TO_IP, IA32_LBR_0_TO_IP + 31},
    {IA32_PMC_GP0_CTR, IA32_PMC_GP0_CTR + (PMU_GENERAL_MAX * IA32_PMC_STEP) - 1},
    {IA32_PMC_FX0_CTR, IA32_PMC_FX0_CTR + (PMU_FIXED_MAX * IA32_PMC_STEP) - 1},
};

bool is_pmu_msr(uint32_t index)
{
    return std::any_of(std::begin(pmu_msrs), std::end(pmu_msrs), [=](const MsrRange &range) {
        return index >= range.first && index <= range.last;
    });
}

bool is_apic_msr(uint32_t index) { return index >= X2APIC_FIRST && index <= X2APIC_LAST; }

}  // namespace

Executed executed_rdmsr(uint32_t index)
{
    if (is_pmu_msr(index))
        return EXECUTED_RDMSR_PMU;
    return is_apic_msr(index) ? EXECUTED_RDMSR_APIC : EXECUTED_RDMSR_OTHER;
}

Executed executed_wrmsr(uint32_t index, uint64_t value)
{
    if (is_pmu_msr(index))
        return EXECUTED_WRMSR_PMU;
    if (is_apic_msr(index))
        return EXECUTED_WRMSR_APIC;
    if (index == IA32_SPEC_CTRL)
        return EXECUTED_SPEC_CTRL;
    if (index == IA32_FLUSH_CMD && (value & FLUSH_CMD_L1D))
        return EXECUTED_L1D_FLUSH;
    return EXECUTED_WRMSR_OTHER;
}

void Spread::add(uint64_t value)
{
    min = samples == 0 ? value : std::min(min, value);
    max = std::max(max, value);
    sum += value;
    samples++;
}

void Spread::merge(const Spread &other)
{
    if (other.samples == 0)
        return;
    min = samples == 0 ? other.min : std::min(min, other.min);
    max = std::max(max, other.max);
    sum += other.sum;
    samples += other.samples;
}

void Tally::merge(const Tally &other)
{
    for (const auto &[reason, exit] : other.exits) {
        exits[reason].count += exit.count;
        exits[reason].root_instructions.merge(exit.root_instructions);
        exits[reason].vmcs_accesses.merge(exit.vmcs_accesses);
        for (const auto &[index, count] : exit.msrs)
            exits[reason].msrs[index] += count;
        for (const auto &[path, count] : exit.paths)
            exits[reason].paths[path] += count;
    }
    for (unsigned world = 0; world < WORLDS; world++)
        for (unsigned n = 0; n < EXECUTED_KINDS; n++)
            executed[world][n] += other.executed[world][n];
    for (unsigned n = 0; n < ARRIVALS; n++) {
        nmi[n] += other.nmi[n];
        pmi[n] += other.pmi[n];
    }
    for (unsigned n = 0; n < MODE_COUNT; n++)
        instructions[n] += other.instructions[n];
    nmi_injected += other.nmi_injected;
    pmi_raised += other.pmi_raised;
    pmi_masked += other.pmi_masked;
    for (unsigned kind = 0; kind < STORED_KINDS; kind++)
        stored[kind] += other.stored[kind];
    begins += other.begins;
    open = open || other.open;
}

template<typename Update> void Ledger::update(Update apply)
{
    apply(total_);
    for (uint32_t id : open_)
        apply(regions_[id].tally);
}

// Instructions that root mode has retired.
uint64_t Ledger::root_instructions() const
{
    uint64_t sum = 0;

    for (unsigned mode = 0; mode < MODE_COUNT; mode++)
        if (mode & MODE_ROOT_BIT)
            sum += retired_[mode];
    return sum;
}

uint64_t Ledger::instructions() const
{
    return std::accumulate(retired_, retired_ + MODE_COUNT, uint64_t{0});
}

void Ledger::count(Executed kind, unsigned world, uint64_t times)
{
    if (kind == EXECUTED_VMREAD || kind == EXECUTED_VMWRITE)
        accesses_++;
    update([=](Tally &tally) { tally.executed[world][kind] += times; });
}

void Ledger::settle()
{
    if (pending_ == EXECUTED_KINDS || instructions() <= pending_at_)
        return;
    count(pending_, pending_world_, 1);
    pending_ = EXECUTED_KINDS;
}

void Ledger::executes(Executed kind, unsigned world)
{
    settle();
    pending_ = kind;
    pending_world_ = world;
    pending_at_ = instructions();
}

void Ledger::stops()
{
    settle();
    pending_ = EXECUTED_KINDS;
}

void Ledger::apic_access(unsigned world) { count(EXECUTED_APIC_ACCESS, world, 1); }

uint64_t Ledger::vmcs_accesses()
{
    settle();
    return accesses_;
}

void Ledger::vm_exit(unsigned reason)
{
    stops();
    // A VM entry that fails ends one exit and is the next.
    if (in_exit_)
        vm_entry();
    in_exit_ = true;
    exit_reason_ = reason;
    exit_at_ = root_instructions();
    exit_accesses_ = accesses_;
    update([=](Tally &tally) { tally.exits[reason].count++; });
}

void Ledger::exit_of_msr(uint32_t index)
{
    update([=](Tally &tally) { tally.exits[exit_reason_].msrs[index]++; });
}

void Ledger::exit_path(const Path &path)
{
    if (in_exit_ && !path.empty())
        update([&](Tally &tally) { tally.exits[exit_reason_].paths[path]++; });
}

void Ledger::vm_entry()
{
    settle();
    if (!in_exit_)
        return;
    in_exit_ = false;
    uint64_t instructions = root_instructions() + 1 - exit_at_;
    uint64_t accesses = accesses_ - exit_accesses_;
    update([=](Tally &tally) {
        tally.exits[exit_reason_].root_instructions.add(instructions);
        tally.exits[exit_reason_].vmcs_accesses.add(accesses);
    });
}

void Ledger::listed(uint64_t msrs)
{
    if (msrs != 0)
        count(EXECUTED_LISTED, WORLD_ROOT, msrs);
}

void Ledger::nmi(Arrival where)
{
    update([=](Tally &tally) { tally.nmi[where]++; });
}

void Ledger::nmi_injected()
{
    update([](Tally &tally) { tally.nmi_injected++; });
}

void Ledger::pmi_raised(bool masked)
{
    update([=](Tally &tally) {
        tally.pmi_raised++;
        tally.pmi_masked += masked;
    });
}

void Ledger::stored(Stored what)
{
    update([=](Tally &tally) { tally.stored[what]++; });
}

void Ledger::pmi(Arrival where)
{
    update([=](Tally &tally) { tally.pmi[where]++; });
}

void Ledger::region_begin(uint32_t id, unsigned mode)
{
    Region &region = regions_[id];

    region.tally.begins++;
    region_begin_here(id);
    if (region.depth == 1)
        region.begin[mode]++;
}

void Ledger::region_begin_here(uint32_t id)
{
    Region &region = regions_[id];

    settle();
    if (region.depth++ > 0)
        return;
    open_.push_back(id);
    std::copy(retired_, retired_ + MODE_COUNT, region.begin);
}

void Ledger::region_end(uint32_t id)
{
    auto found = regions_.find(id);

    if (found == regions_.end() || found->second.depth == 0)
        stray_ends_++;
    else
        region_end_here(id);
}

void Ledger::region_end_here(uint32_t id)
{
    Region &region = regions_[id];

    settle();
    if (region.depth == 0 || --region.depth > 0)
        return;
    open_.erase(std::find(open_.begin(), open_.end(), id));
    region.tally = closed(region);
}

// The region's tally with the instructions since its begin.
Tally Ledger::closed(const Region &region) const
{
    Tally tally = region.tally;

    for (unsigned mode = 0; mode < MODE_COUNT; mode++)
        tally.instructions[mode] += retired_[mode] - region.begin[mode];
    return tally;
}

Tally Ledger::total()
{
    settle();
    Tally tally = total_;

    std::copy(retired_, retired_ + MODE_COUNT, tally.instructions);
    return tally;
}

std::map<uint32_t, Tally> Ledger::regions()
{
    std::map<uint32_t, Tally> all;

    settle();
    for (const auto &[id, region] : regions_) {
        all[id] = region.depth > 0 ? closed(region) : region.tally;
        all[id].open = region.depth > 0;
    }
    return all;
}
