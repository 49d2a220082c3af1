/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor in whose NMI handler something unblocks NMIs, as an SMI may whose handler executes
 * an IRET, while another NMI waits: that must be seen and reported. SDM Vol. 3, "NMI Handling While
 * in SMM".
 */
#include "apic/apic.h"
#include "nmi/nmi.h"

unsigned __real_nmi_claim(struct cpu *cpu, enum nmi_found found, uint64_t rip, bool in_root);

unsigned __wrap_nmi_claim(struct cpu *cpu, enum nmi_found found, uint64_t rip, bool in_root)
{
    static bool once;

    if (found == FOUND_IN_ROOT && in_root && !once) {
        once = true;
        (void)apic_send_self_nmi();
        nmi_unblock();
    }
    return __real_nmi_claim(cpu, found, rip, in_root);
}
