/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that takes any INIT at offset 0 in real mode for one that was pending before the
 * SIPI: a processor that loops there must be seen to be out of reach for good.
 */
#include "vmx/exit/exit.h"

void __real_exit_init(struct cpu *cpu);

void __wrap_exit_init(struct cpu *cpu)
{
    if (vmcs_read_natural(VMCS_GUEST_RIP) != 0 || vmcs_read_natural(VMCS_GUEST_CR0) & CR0_PE)
        __real_exit_init(cpu);
}
