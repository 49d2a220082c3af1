/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that takes the output of Intel PT to a closed page for the guest's own access: it
 * must be seen in a record, and by the trace that has no error.
 */
#include "vmx/exit/exit.h"

bool __wrap_pt_report_output_error(struct cpu *cpu, uint64_t qualification);

bool __wrap_pt_report_output_error(struct cpu *cpu, uint64_t qualification)
{
    (void)cpu;
    (void)qualification;
    return false;
}
