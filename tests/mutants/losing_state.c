/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that loses the guest's single step at a CPUID exit and, where the guest uses
 * protection keys, its PKRU: a uprobe on CPUID and the guest's rights must be seen to break.
 */
#include "vmx/exit/exit.h"

void __real_exit_cpuid(struct cpu *cpu);

void __wrap_exit_cpuid(struct cpu *cpu)
{
    uint64_t cr4 = read_cr4();

    __real_exit_cpuid(cpu);
    vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS, 0);
    if (vmcs_read_natural(VMCS_GUEST_CR4) & CR4_PKE) {
        write_cr4(cr4 | CR4_PKE);
        __asm__ volatile("wrpkru" : : "a"(0), "c"(0), "d"(0));
        write_cr4(cr4);
    }
}
