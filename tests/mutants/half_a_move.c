/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that keeps what a MOV to CR0 asked for where the processor refused it: CR0.NE must
 * be seen to have changed.
 */
#include "vmx/exit/exit.h"

void __wrap_exit_monitor_trap(struct cpu *cpu)
{
    vmcs_set_primary_controls(PRIMARY_MONITOR_TRAP_FLAG, false);
    cpu->sipi.taken = false;
}
