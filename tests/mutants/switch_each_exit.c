/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The registers that counting needs are switched at each exit and back at the entry, whether root
 * mode counts anything or not. In software: the thesis (section 3.1) argues against the same by
 * VMX's own MSR lists, which take no instruction. For policy=msr+nmi with stats=cycles, whose way
 * in calls this in the place of what reads the TSC; and for a guest that asks for no host work,
 * which switches them itself. The NMIs of the guest that come meanwhile wait in software, as they
 * do around host work, because the registers that say what they are, and what they freeze, are not
 * the guest's then.
 */
#include "nmi/nmi.h"
#include "pmu/pmu.h"
#include "vmx/exit/exit.h"

void __wrap_vmx_exit_timed(struct cpu *cpu)
{
    cpu->nmi.hold = true;
    pmu_context_switch(cpu, cpu->pmu.guest, cpu->pmu.host, false);
    vmx_exit(cpu);
    pmu_context_switch(cpu, cpu->pmu.host, cpu->pmu.guest, false);
    nmi_release(cpu);
}
