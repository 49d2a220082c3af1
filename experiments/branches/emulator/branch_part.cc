// SPDX-License-Identifier: BSD-2-Clause
//
// What Bochs' processors do, for the branch trace: outside root mode, while a region is open.
#include "bochs.h"
#include "cpu.h"

#include "branch_trace.h"
#include "part.h"
#include "processor.h"

namespace {

class BranchPart : public Part {
public:
    unsigned watch(const Processor &p, bool root) override
    {
        return traces_[p.id].on() && !root ? TB_WATCH_BRANCH : 0;
    }

    void branch(Processor &p, const TracedBranch &branch) override
    {
        if (traces_[p.id].on())
            traces_[p.id].branch(branch, p.id);
    }

    void region(Processor &p, uint32_t id, bool begins) override
    {
        if (traces_[p.id].region(id, begins, knob(), p.id, p.events.instructions()))
            processor_plan(p);
    }

    std::string late() override;

private:
    RegionKnob knob() const
    {
        RegionKnob knob;

        region_knob_parse(value, &knob);
        return knob;
    }

    BranchTrace traces_[TB_MAX_CPUS];
};

// A trace of a region that has begun would lack its begin.
std::string BranchPart::late()
{
    const RegionKnob asked = knob();

    for (unsigned n = 0; n < processor_count(); n++)
        for (const auto &[id, tally] : processor(n).ledger.regions())
            if (asked.has(id))
                return "branch_trace: region " + std::to_string(id) +
                       " begins before the server's point";
    return "";
}

}  // namespace

Part &branch_trace_part()
{
    static BranchPart part;

    return part;
}
