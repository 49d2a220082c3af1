/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that takes an element of REP STOSQ that crosses a page's end for one within it, and
 * goes on in the page that follows in memory: another page must be seen to change.
 */
#include "experiments/memory/hypervisor/memory_record.h"

#define REP_STOSQ 0xab48f3u
#define REP_STOSQ_BYTES 0xffffffu

void __real_memory_do_string(struct cpu *cpu, const struct trace_memory *stepped, uint64_t rsi);
void __wrap_memory_do_string(struct cpu *cpu, const struct trace_memory *stepped, uint64_t rsi);

void __wrap_memory_do_string(struct cpu *cpu, const struct trace_memory *stepped, uint64_t rsi)
{
    uint64_t target = cpu->gpr[GPR_RDI],
             *next = memory_host_address(stepped->gpa + sizeof(uint64_t));

    if ((*(const uint32_t *)stepped->code & REP_STOSQ_BYTES) == REP_STOSQ &&
        stepped->rip == vmcs_read_natural(VMCS_GUEST_RIP) && cpu->gpr[GPR_RCX] != 0 &&
        target == stepped->gla + sizeof(uint64_t) &&
        target / PAGE_SIZE != stepped->gla / PAGE_SIZE) {
        *next = cpu->gpr[GPR_RAX];
        cpu->gpr[GPR_RCX]--;
        cpu->gpr[GPR_RDI] += sizeof(uint64_t);
    }
    __real_memory_do_string(cpu, stepped, rsi);
}
