/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that refuses a wide access that reaches port 61H, with platform_nmi=host: IN AX,
 * 60H must be seen to fault.
 */
#include "nmi/nmi.h"
#include "vmx/exit/exit.h"

void __real_exit_io(struct cpu *cpu);

void __wrap_exit_io(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);
    uint16_t port = (uint16_t)(qualification >> IO_PORT_SHIFT);

    if (cpu->boot->options.platform_nmi_host && qualification & IO_SIZE_MASK &&
        port <= NMI_STATUS_PORT && port + (qualification & IO_SIZE_MASK) >= NMI_STATUS_PORT)
        inject_gp();
    else
        __real_exit_io(cpu);
}
