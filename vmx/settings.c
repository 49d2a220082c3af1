/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Derives what applies on this machine from what the user asked for. Pure, except for a line of the
 * log and the experiments' answers.
 * SDM Vol. 3, Appendix "VMX Capability Reporting Facility".
 */
#include "vmx/settings.h"

#include "console/log.h"
#include "experiment.h"
#include "vmx.h"

/* Without the wait-for-SIPI state a processor waits for its SIPI in root mode. Then only a trapped
 * local APIC shows which SIPI the guest sends to that processor. */
static bool needs_apic_trap(uint32_t processors, uint64_t vmx_misc)
{
    return processors > 1 && !(vmx_misc & VMX_MISC_ACTIVITY_WAIT_FOR_SIPI);
}

struct settings settings_derive(const struct options *asked, uint32_t processors, uint64_t vmx_misc)
{
    uint32_t most = asked->processors != 0 ? asked->processors : PROCESSORS_MAX;

    if (most > processors)
        most = processors > 0 ? processors : 1; /* no MADT: this processor alone */
    bool needed = needs_apic_trap(most, vmx_misc);

    if (needed && !asked->apic_trap)
        log_printf("VMX has no wait-for-SIPI state: apic=trap is on, to see SIPIs being sent\n");
    bool hidden = asked->tick_ms != 0;
    FOR_EACH_EXPERIMENT(e)
        hidden |= e->hides_monitor != NULL && e->hides_monitor();
    return (struct settings){
        .apic_trap = asked->apic_trap || needed, .monitor_hidden = hidden, .processors = most};
}
