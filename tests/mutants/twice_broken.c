/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that has a MOV to CR0 or CR4 executed again without RF: an instruction breakpoint
 * there must be seen to come twice.
 */
#include "vmx/exit/exit.h"

void __real_exit_cr_access(struct cpu *cpu);

void __wrap_exit_cr_access(struct cpu *cpu)
{
    __real_exit_cr_access(cpu);
    if (!(vmcs_read_32(VMCS_ENTRY_INTERRUPTION_INFORMATION) & INTERRUPTION_VALID))
        vmcs_write_natural(VMCS_GUEST_RFLAGS, vmcs_read_natural(VMCS_GUEST_RFLAGS) & ~RFLAGS_RF);
}
