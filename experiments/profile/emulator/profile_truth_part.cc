// SPDX-License-Identifier: BSD-2-Clause
//
// What Bochs' processors do, for the truth of a profile: outside root mode, of the processor that
// has opened the region. Root mode's instructions are in the distance of an NMI from its overflow,
// and nowhere else.
#include "bochs.h"
#include "cpu.h"

#include "part.h"
#include "processor.h"
#include "profile_truth.h"

namespace {

constexpr uint32_t MSR_GLOBAL_STATUS = 0x38e;
constexpr unsigned VECTOR_OF_NMI = 2, FIRST_OF_INTERRUPTS = 32;
constexpr unsigned USER = 3; /* CPL */

uint64_t status_of(const Processor &p)
{
    uint64_t status = 0;

    p.pmu.read_msr(MSR_GLOBAL_STATUS, &status);
    return status;
}

/* The address space: of the kernel there is one. */
uint64_t space_of(const Processor &p, bool user)
{
    return user ? BX_CPU(p.id)->cr3 & ~0xfffull : 0;
}

class ProfileTruthPart : public Part {
public:
    unsigned watch(const Processor &p, bool) override
    {
        return truths_[p.id].on() ? TB_WATCH_EVENT | TB_WATCH_BRANCH : 0;
    }

    void region(Processor &p, uint32_t id, bool begins) override
    {
        RegionKnob knob;

        region_knob_parse(value, &knob);
        if (truths_[p.id].region(knob, id, begins, p.events.instructions_in(false), status_of(p)))
            processor_plan(p);
    }

    void executes(Processor &p) override;

    void branch(Processor &p, const TracedBranch &branch) override
    {
        if (branch.event && !processor_in_root(p))
            delivered(p, branch.vector, branch.from, branch.user_before);
    }

    // Before its handler's first instruction, of which branch() would have been told. Where the
    // delivery itself has exited, RIP is as it was.
    void vm_exit(Processor &p, uint32_t) override
    {
        if (p.event_branch && BX_CPU(p.id)->gen_reg[BX_64BIT_REG_RIP].rrx != p.event_from)
            delivered(p, p.event_vector, p.event_from, p.event_user);
    }

private:
    void delivered(const Processor &p, unsigned vector, uint64_t from, bool user)
    {
        if (truths_[p.id].on() && (vector == VECTOR_OF_NMI || vector >= FIRST_OF_INTERRUPTS))
            truths_[p.id].interrupt(vector, {space_of(p, user), from, user},
                                    p.events.instructions(), p.events.instructions_in(false));
    }

    Truth truths_[TB_MAX_CPUS];
};

void ProfileTruthPart::executes(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    Truth &truth = truths_[p.id];
    const uint64_t retired = p.events.instructions(),
                   outside_root = p.events.instructions_in(false);

    if (!truth.on())
        return;
    if (processor_in_root(p)) {
        truth.status(retired, outside_root, status_of(p));
        return;
    }
    const bool user = cpu->sregs[BX_SEG_REG_CS].selector.rpl == USER;

    truth.executes(
        {space_of(p, user), cpu->gen_reg[BX_64BIT_REG_RIP].rrx, user, cpu->get_IF() != 0}, retired,
        outside_root, status_of(p));
}

}  // namespace

Part &profile_truth_part()
{
    static ProfileTruthPart part;

    return part;
}
