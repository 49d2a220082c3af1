/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that has a load of CR3 executed again without RF, under trace=flow: an instruction
 * breakpoint there must be seen to come twice.
 */
#include "experiments/flow/hypervisor/level.h"
#include "vmx/exit/exit.h"

void __real_flow_cr_access(struct cpu *cpu);
void __wrap_flow_cr_access(struct cpu *cpu);

void __wrap_flow_cr_access(struct cpu *cpu)
{
    bool load = trace_is_load_of_cr3(vmcs_read_natural(VMCS_EXIT_QUALIFICATION));

    __real_flow_cr_access(cpu);
    if (load)
        vmcs_write_natural(VMCS_GUEST_RFLAGS, vmcs_read_natural(VMCS_GUEST_RFLAGS) & ~RFLAGS_RF);
}
