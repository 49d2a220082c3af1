// SPDX-License-Identifier: BSD-2-Clause
//
// Counting for the ledger: the run's total and every region that is open get each event.
#include "ledger.h"

#include <algorithm>

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
    for (unsigned n = 0; n < ROOT_KINDS; n++)
        root[n] += other.root[n];
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

void Ledger::vm_exit(unsigned reason)
{
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

void Ledger::root_instruction(RootInstruction kind)
{
    if (kind == ROOT_VMREAD || kind == ROOT_VMWRITE)
        accesses_++;
    update([=](Tally &tally) { tally.root[kind]++; });
}

void Ledger::listed(uint64_t msrs)
{
    if (msrs != 0)
        update([=](Tally &tally) { tally.root[ROOT_LISTED] += msrs; });
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

Tally Ledger::total() const
{
    Tally tally = total_;

    std::copy(retired_, retired_ + MODE_COUNT, tally.instructions);
    return tally;
}

std::map<uint32_t, Tally> Ledger::regions() const
{
    std::map<uint32_t, Tally> all;

    for (const auto &[id, region] : regions_) {
        all[id] = region.depth > 0 ? closed(region) : region.tally;
        all[id].open = region.depth > 0;
    }
    return all;
}
