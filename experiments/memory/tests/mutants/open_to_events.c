/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A memory trace whose steps block nothing by MOV SS: an event comes before the stepped instruction
 * and is delivered under the open map. Its frame leaves no record, and the exit behind it is taken
 * for the instruction's.
 */
#include "experiments/memory/hypervisor/memory_record.h"

void unblocked(struct cpu *cpu);
void trap_again(struct cpu *cpu);
void other_again(struct cpu *cpu);
void set_up_again(struct cpu *cpu);
void __wrap_memory_exit_write(struct cpu *cpu);

#undef BLOCKING_BY_MOV_SS
#define BLOCKING_BY_MOV_SS 0
#define memory_exit_write unblocked
#define memory_exit_trap trap_again
#define memory_exit_other other_again
#define memory_exit_setup set_up_again
#include "experiments/memory/hypervisor/memory_exit.c"

void __wrap_memory_exit_write(struct cpu *cpu) { unblocked(cpu); }
