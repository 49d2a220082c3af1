// SPDX-License-Identifier: BSD-2-Clause
#include "bochs.h"
#include "cpu.h"
#include "pc_system.h"

#include <map>

#include "knobs.h"
#include "mwait_wake.h"

namespace {

struct Sleeper {
    int timer = -1;
    bool waking = false;  // its time is over: the INIT goes on
};
std::map<unsigned, Sleeper> sleepers;

void wake(void *which)
{
    BX_CPU_C *cpu = static_cast<BX_CPU_C *>(which);
    Sleeper &sleeper = sleepers[cpu->bx_cpuid];

    sleeper.waking = true;
    cpu->deliver_INIT();
    sleeper.waking = false;
}

}  // namespace

bool mwait_wake_delays(unsigned n)
{
    BX_CPU_C *cpu = BX_CPU(n);
    Sleeper &sleeper = sleepers[n];

    if (knobs().mwait_wake == 0 || sleeper.waking || !cpu->in_vmx_guest ||
        (cpu->activity_state != BX_CPU_C::BX_ACTIVITY_STATE_MWAIT &&
         cpu->activity_state != BX_CPU_C::BX_ACTIVITY_STATE_MWAIT_IF))
        return false;
    if (sleeper.timer < 0)
        sleeper.timer = bx_pc_system.register_timer_ticks(cpu, wake, knobs().mwait_wake, false,
                                                          false, "mwait_wake");
    bx_pc_system.activate_timer_ticks(sleeper.timer, knobs().mwait_wake, false);
    return true;
}
