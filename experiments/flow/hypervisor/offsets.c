/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Offsets and constants that this folder's assembly needs, as in vmx/offsets.c.
 */
#include "experiments/shared/hypervisor/ring.h"

#define DEFINE(name, value) __asm__ volatile("# ->" #name " %c0" : : "i"(value))

void flow_offsets(void);

void flow_offsets(void)
{
    DEFINE(CPU_TRACE_RECORD, offsetof(struct cpu_trace, record));
    DEFINE(CPU_TRACE_FIRST, offsetof(struct cpu_trace, first));
    DEFINE(CPU_TRACE_END, offsetof(struct cpu_trace, end));
    DEFINE(CPU_TRACE_RING, offsetof(struct cpu_trace, ring));
    DEFINE(RECORD_TSC, offsetof(struct trace_record, tsc));
    DEFINE(RECORD_RIP, offsetof(struct trace_record, rip));
    DEFINE(RECORD_CR3, offsetof(struct trace_record, rip) + sizeof(uint64_t)); /* a bit-field */
    DEFINE(RECORD_ROOT_TIME, offsetof(struct trace_record, root_time));
    DEFINE(RECORD_BYTES, sizeof(struct trace_record));
    DEFINE(RING_WRITTEN, offsetof(struct trace_ring, written));
    DEFINE(VMCS_GUEST_RIP, VMCS_GUEST_RIP);
    DEFINE(VMCS_GUEST_CR3, VMCS_GUEST_CR3);
    DEFINE(VECTOR_MC, VECTOR_MC);
    DEFINE(IA32_MCG_STATUS, IA32_MCG_STATUS);
    DEFINE(MCG_STATUS_MCIP, MCG_STATUS_MCIP);
}
