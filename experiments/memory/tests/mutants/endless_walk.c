/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that knows a walk again only where no other violation came in between: a MOVS from
 * a closed page to one with A = 1 and D = 0 must be seen never to end.
 */
#include "experiments/memory/hypervisor/memory_record.h"

bool __real_memory_walk(struct cpu *cpu, uint64_t qualification, uint64_t gla, uint64_t gpa);
bool __wrap_memory_walk(struct cpu *cpu, uint64_t qualification, uint64_t gla, uint64_t gpa);

bool __wrap_memory_walk(struct cpu *cpu, uint64_t qualification, uint64_t gla, uint64_t gpa)
{
    if (cpu->exits[EXIT_REASON_EPT_VIOLATION] - memory_of(cpu)->walked_at != 1)
        memory_of(cpu)->walked = 1; /* no entry's */
    return __real_memory_walk(cpu, qualification, gla, gpa);
}
