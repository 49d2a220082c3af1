/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An NMI in root mode. The host's sources are asked first. What none of them claims is the guest's:
 * a PMI whose delivery took longer than the guest kept the processor (skid), or any other NMI that
 * came during an exit. Where a source claimed it, one of the guest's may have merged with it
 * (nmi_guest_merged() has the evidence).
 *
 * The guest's NMI is sent again, to this processor itself, while NMIs are blocked by this very
 * handler. The hardware then holds it pending; the handler leaves without IRET, so it stays
 * pending; and the VM entry, which sets NMI blocking from the guest's interruptibility state, lets
 * the guest have it, at once or after its own IRET, after MOV SS or STI, in HLT or not: as the
 * processor itself delivers it. (With NMI exiting on it exits at once and is injected, virtual.c.)
 * It arrives once, because one NMI became one; a second one in the meantime merges with it, as two
 * pending NMIs do natively; and it never nests.
 *
 * It also means that there is no check before VMRESUME that an NMI could come too late for.
 * SDM Vol. 3, "Handling Multiple NMIs"; "Guest Interruptibility State"; "Changes to NMI Blocking".
 *
 * Rules here: no fault, no lock, no print, no VMREAD or VMWRITE, no IRET when the guest's NMI was forwarded.
 */
#include "nmi.h"

#include "../apic/apic.h"
#include "../pmu/host_work.h"
#include "bookkeeping.h"
#include "cpu.h"
#include "source.h"

enum nmi_return nmi_root(uint64_t rip)
{
    struct cpu *cpu = this_cpu();
    struct cpu_nmi *nmi = &cpu->nmi;
    enum nmi_return back =
        host_work_pmi_pending(cpu) ? NMI_RETURN_COUNTING : NMI_RETURN_UNBLOCKED;

    nmi->root++;
    unsigned claimed = nmi_claim(cpu, FOUND_IN_ROOT, rip, true);
    /* During host work the PMU is the host's, and says nothing about the guest. */
    if (claimed != 0 && (cpu->pmu.host_work != NULL || !nmi_guest_merged(cpu)))
        return back;
    /* Before the guest's first instruction there is nobody whose NMI it could be. Kept pending it would
     * meet a guest without an IDT; natively it would have met firmware. */
    if (!nmi->guest_started) {
        nmi->before_guest++;
        return back;
    }
    if (!(cpu->boot->options.bookkeeping & BOOKKEEPING_SKID)) {
        nmi->dropped++;
        return back;
    }
    if (nmi->hold) {
        nmi->held = true;
        return back;
    }
    nmi_mark_forwarded(cpu);
    if (apic_send_self_nmi()) {
        nmi->forwarded++;
        return NMI_RETURN_BLOCKED;
    }
    nmi->dropped++;
    return back;
}
