/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that records each MOV to CR3 as a load, under trace=flow: one that the processor
 * refuses must be seen in the record. For one processor.
 */
#include "experiments/flow/hypervisor/level.h"
#include "vmx/root/end.h"

void __real_trace_set_cr3_targets(uint64_t value);
void __wrap_trace_set_cr3_targets(uint64_t value);

void __wrap_trace_set_cr3_targets(uint64_t value)
{
    struct cpu_trace *trace = trace_of(get_cpu_by_index(0));

    if (trace->record != NULL)
        trace->record->cr3 = value & BITS(47, 0);
    __real_trace_set_cr3_targets(value);
}
