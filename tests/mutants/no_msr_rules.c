/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that lets every MSR through: each row of the table must be seen to matter.
 */
#include "vmx/exit.h"

void __wrap_msr_setup(struct cpu *cpu, const uint32_t *controls);

void __wrap_msr_setup(struct cpu *cpu, const uint32_t *controls)
{
    (void)cpu;
    (void)controls;
}
