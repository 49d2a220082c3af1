/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that counts the CPUID exits of all processors in one place: the ledger must be seen
 * to find that cache line shared. Linked instead of vmx/exit/cpuid.c's function.
 */
#include "vmx/exit/exit.h"

static uint64_t cpuid_exits;

void __real_exit_cpuid(struct cpu *cpu);

void __wrap_exit_cpuid(struct cpu *cpu)
{
    (void)__atomic_add_fetch(&cpuid_exits, 1, __ATOMIC_RELAXED);
    __real_exit_cpuid(cpu);
}
