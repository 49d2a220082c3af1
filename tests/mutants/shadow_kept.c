/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor whose INIT leaves the shadow stacks' MSRs that are not in the VMCS: a processor must
 * be seen to start with what was in them before.
 */
#include "msr.h"
#include "vmx/exit/exit.h"
#include "vmx/root/fault.h"

#define SSPS 4

void __real_exit_sipi(struct cpu *cpu);

void __wrap_exit_sipi(struct cpu *cpu)
{
    uint64_t control = 0, ssp[SSPS] = {0};
    bool there = rdmsr_safe(IA32_U_CET, &control);

    for (uint32_t i = 0; there && i < SSPS; i++)
        (void)rdmsr_safe(IA32_PL0_SSP + i, &ssp[i]);
    __real_exit_sipi(cpu);
    for (uint32_t i = 0; there && i < SSPS; i++)
        (void)wrmsr_safe(IA32_PL0_SSP + i, ssp[i]);
    if (there)
        (void)wrmsr_safe(IA32_U_CET, control);
}
