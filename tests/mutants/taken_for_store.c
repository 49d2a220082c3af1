/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that takes each access to the trapped APIC's page for the next instruction's: a
 * record of PEBS that goes there must be seen in that instruction's place.
 */
#include "vmx/exit/apic_trap.h"
#include "vmx/exit/exit.h"

bool __real_apic_trap_access(struct cpu *cpu, uint64_t address, uint64_t qualification);

bool __wrap_apic_trap_access(struct cpu *cpu, uint64_t address, uint64_t qualification)
{
    return __real_apic_trap_access(cpu, address, qualification & ~EPT_VIOLATION_ASYNCHRONOUS);
}
