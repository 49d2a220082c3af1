/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that takes each MOV to CR3 for a load of what it asks for: one that the processor
 * refuses must be seen to change what is traced.
 */
#include "experiments/memory/hypervisor/state.h"

void __real_memory_select_map(struct cpu *cpu, uint64_t cr3);
void __wrap_memory_select_map(struct cpu *cpu, uint64_t cr3);

void __wrap_memory_select_map(struct cpu *cpu, uint64_t cr3)
{
    __real_memory_select_map(cpu, memory_of(cpu)->mode != MEMTRACE_OFF && cr3 != 0
                                      ? vmcs_read_natural(VMCS_CR3_TARGET_VALUE_0)
                                      : cr3);
}
