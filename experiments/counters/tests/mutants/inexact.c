/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor whose guest cannot trust its counters: they go on counting in root mode, and with
 * policy=intercept a counter that the guest sets for use loses its lowest byte, so that a thread
 * does not get back what its counter held. The accuracy experiment must see both.
 */
#include "bits.h"
#include "msr.h"
#include "pmu/pmu.h"
#include "vmx/vmcs.h"

#define LOWEST_BYTE UINT64_C(0xff)
#define NEGATIVE BIT(47) /* the guest's first tries of a counter are with positive values */
#define COUNTERS 4u
#define FIXED_COUNTERS 3u

void __real_pmu_setup(struct cpu *cpu);
void __wrap_pmu_setup(struct cpu *cpu);
bool __real_pmu_access_register(struct cpu *cpu, uint32_t msr, uint64_t *value, bool write);
bool __wrap_pmu_access_register(struct cpu *cpu, uint32_t msr, uint64_t *value, bool write);

void __wrap_pmu_setup(struct cpu *cpu)
{
    __real_pmu_setup(cpu);
    vmcs_write_64(VMCS_HOST_IA32_PERF_GLOBAL_CTRL, cpu->pmu.global_ctrl_valid);
}

bool __wrap_pmu_access_register(struct cpu *cpu, uint32_t msr, uint64_t *value, bool write)
{
    bool counter = msr - IA32_PMC0 < COUNTERS || msr - IA32_A_PMC0 < COUNTERS ||
                   msr - IA32_FIXED_CTR0 < FIXED_COUNTERS;

    if (write && counter && *value & NEGATIVE)
        *value &= ~LOWEST_BYTE;
    return __real_pmu_access_register(cpu, msr, value, write);
}
