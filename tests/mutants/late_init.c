/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that takes longer from an INIT to the wait for a SIPI than a guest waits, and that
 * leaves the local APIC as it was: both must be seen.
 * SDM Vol. 3, "Local APIC State After an INIT Reset ("Wait-for-SIPI" State)".
 */
#include "apic/apic.h"
#include "vmx/exit/exit.h"

#define LONGER_THAN_SIPIS 100000

void __real_exit_init(struct cpu *cpu);

void __wrap_apic_set_init_state(void) {}

void __wrap_exit_init(struct cpu *cpu)
{
    static bool patient;

    /* The first INIT is in time, for a look at the APIC. */
    for (unsigned i = 0; patient && i < LONGER_THAN_SIPIS; i++)
        __asm__ volatile("pause");
    patient = true;
    __real_exit_init(cpu);
}
