// SPDX-License-Identifier: BSD-2-Clause
//
// The knob root_time, while a region is open. Unlike other parts this one changes the machine.
// kept: the machine's clock goes on in root mode, and by some ticks more at each entry: the price
// of an exit, which the emulator has not. taken: what a hypervisor with a TSC offset and a deadline
// of its own does. The guest's TSC stands still in root mode, but for some ticks, and the deadline
// is put off; other devices run on. SDM Vol. 3, "TSC-Deadline Mode" and "Changes to Instruction
// Behavior in VMX Non-Root Operation" (RDTSC).
#include "bochs.h"
#include "cpu.h"
#include "apic.h"
#include "pc_system.h"

#include "part.h"
#include "processor.h"
#include "root_time.h"

namespace {

constexpr Bit64u VMRESUME_TICK = 1;  // it counts when it is complete, after the entry

// Bochs counts instructions first, and has its clock follow some of them later.
void clock_follows(BX_CPU_C *cpu)
{
    Bit32u behind = static_cast<Bit32u>(cpu->get_icount() - cpu->icount_last_sync);

    cpu->sync_icount();
    if (behind != 0)
        bx_pc_system.tickn(behind);
}

class RootTimePart : public Part {
public:
    void region(Processor &, uint32_t, bool begins) override
    {
        root_time_parse(value, &time_);
        open_ = begins;
        stays_ = false;
    }
    void vm_exit(Processor &p, uint32_t reason) override;
    void vm_entry(Processor &p) override;

private:
    RootTime time_;
    bool open_ = false;
    bool stays_ = false; /* in root mode, and its begin was seen */
    Bit64u tsc_ = 0;
    Bit64u deadline_ = 0;
};

void RootTimePart::vm_exit(Processor &p, uint32_t)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    stays_ = open_;
    if (!stays_ || !time_.taken)
        return;
    clock_follows(cpu);
    tsc_ = cpu->get_TSC();
    deadline_ = cpu->lapic->get_tsc_deadline();
    if (deadline_ != 0)
        cpu->lapic->set_tsc_deadline(0);
}

void RootTimePart::vm_entry(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    if (!stays_)
        return;
    stays_ = false;
    if (!time_.taken) {
        bx_pc_system.tickn(time_.ticks);
        return;
    }
    clock_follows(cpu);
    cpu->set_TSC(tsc_ + time_.ticks - VMRESUME_TICK);
    if (deadline_ != 0)
        cpu->lapic->set_tsc_deadline(deadline_);
}

}  // namespace

Part &root_time_part()
{
    static RootTimePart part;

    return part;
}
