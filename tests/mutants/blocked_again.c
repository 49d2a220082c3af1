/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that gives the guest a #GP for its IRET, and sets the blocking by NMI again that the
 * IRET has ended: an NMI that waits must be seen not to come.
 */
#include "vmx/exit/exit.h"

#define NMI_UNBLOCKING BIT(12) /* of an EPT violation's exit qualification */

const char *__real_inject_gp_or_df(struct cpu *cpu);

const char *__wrap_inject_gp_or_df(struct cpu *cpu)
{
    if (vmcs_read_natural(VMCS_EXIT_QUALIFICATION) & NMI_UNBLOCKING)
        vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE, cpu->blocking | BLOCKING_BY_NMI);
    return __real_inject_gp_or_df(cpu);
}
