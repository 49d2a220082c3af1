/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Constants for this folder's assembly, as in vmx/offsets.c.
 */
#include "experiments/flow/hypervisor/registers.h"
#include "msr.h"
#include "vmx/cpu.h"

#define DEFINE(name, value) __asm__ volatile("# ->" #name " %c0" : : "i"(value))

void flow_offsets(void);

void flow_offsets(void)
{
    DEFINE(VECTOR_MC, VECTOR_MC);
    DEFINE(IA32_MCG_STATUS, IA32_MCG_STATUS);
    DEFINE(MCG_STATUS_MCIP, MCG_STATUS_MCIP);
}
