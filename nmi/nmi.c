/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An NMI in root mode. The host has no NMI sources of its own yet, so it is the guest's: a PMI
 * whose delivery took longer than the guest kept the processor (skid), or any other NMI that came
 * during an exit. It is sent again, to this processor itself, while NMIs are blocked by this very
 * handler. The hardware then holds it pending; the handler leaves without IRET, so it stays
 * pending; and the VM entry, which sets NMI blocking from the guest's interruptibility state, lets
 * the guest have it, at once or after its own IRET, after MOV SS or STI, in HLT or not: as the
 * processor itself delivers it. It arrives once, because one NMI became one; a second one in the
 * meantime merges with it, as two pending NMIs do natively; and it never nests.
 *
 * It also means that there is no check before VMRESUME that an NMI could come too late for.
 * SDM Vol. 3, "Handling Multiple NMIs"; "Guest Interruptibility State"; "Changes to NMI Blocking".
 *
 * Rules here: no fault, no lock, no print, no VMREAD or VMWRITE, no IRET when true is returned.
 */
#include "nmi.h"

#include "../apic/apic.h"
#include "cpu.h"

bool nmi_root(void)
{
    struct cpu_nmi *nmi = &this_cpu()->nmi;

    nmi->root++;
    if (apic_send_self_nmi()) {
        nmi->forwarded++;
        return true;
    }
    nmi->dropped++;
    return false;
}
