/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor that reads the ICR's high half of an APIC in whatever mode: with apic=trap a store
 * to the ICR's place in the page must be seen to stop it in x2APIC mode.
 */
#include "apic/apic.h"
#include "vmx/exit/init_sipi.h"

bool __real_guest_sends_ipi(uint64_t mode, uint32_t command, uint32_t destination);
bool __wrap_guest_sends_ipi(uint64_t mode, uint32_t command, uint32_t destination);

bool __wrap_guest_sends_ipi(uint64_t mode, uint32_t command, uint32_t destination)
{
    if (!(mode & APIC_BASE_EXTD))
        (void)apic_read(APIC_ICR_HIGH);
    return __real_guest_sends_ipi(mode, command, destination);
}
