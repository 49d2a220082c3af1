/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An NMI in root mode. The handler first asks the host's sources. An NMI that none of them claims
 * is for the guest: a PMI that was delivered only after the guest had exited (skid), or any other
 * NMI that arrived during an exit. If a source claims the NMI, an NMI for the guest may have merged
 * with it (nmi_may_include_guest_nmi() has the evidence).
 *
 * The handler sends an NMI for the guest again, to this processor itself. The handler still runs,
 * and NMIs are blocked. So the hardware holds the NMI pending. The handler leaves without IRET, so
 * the NMI stays pending. The VM entry sets NMI blocking from the guest's interruptibility state.
 * Then the processor delivers the NMI to the guest as it would natively: at once or after the
 * guest's own IRET, after MOV SS or STI, in HLT or not. (With NMI exiting on, the NMI exits at once
 * and is injected, see exit.c.) The NMI arrives once, because root mode sends one NMI for each NMI
 * that it takes. The guest's NMIs never nest. Another NMI in the meantime merges with it, as two
 * NMIs natively do if they arrive during one instruction: to the guest, an exit is one instruction.
 *
 * If an exit interrupts the guest's own NMI handler, root mode begins with NMIs blocked, and an NMI
 * that arrives waits in hardware. vmx_exit_with_nmi_work() (vmx/exit/exit.c) then unblocks NMIs
 * first, so that the NMI arrives here. The entry blocks NMIs again, and the guest gets the NMI
 * after its IRET. With unblock=lazy the NMI just waits.
 *
 * The send and the arrival are two events. If the ICR write retires before the NMI arrives
 * (x2APIC), the NMI may reach the guest after the entry, which is right. Or the NMI arrives in the
 * next exit and is sent once more. So `root` and `forwarded` count sends and may exceed the number
 * of NMIs that the guest got.
 *
 * This way no check is needed before VMRESUME, so no NMI can arrive too late for a check. SDM Vol.
 * 3, "Handling Multiple NMIs"; "Guest Non-Register State"; "Updating Non-Register State".
 *
 * Firmware's SMI handler may execute an IRET and thereby unblock NMIs (SDM Vol. 3, "NMI Handling
 * While in SMM"). If an NMI then interrupts this handler, it overwrites the handler's return frame,
 * because the NMI uses the same stack. The handler detects this by the interrupted stack pointer,
 * reports it, and ends the machine. On the last three instructions of a return without IRET, the
 * stack is already that of the interrupted code. An NMI there counts as a separate NMI and does no
 * harm.
 *
 * Limit: while the guest has the APIC globally disabled, an NMI comes through the processor's own
 * pin, and nothing can be sent. An NMI that arrives in root mode during that time is lost and
 * counted as dropped. Linux disables the APIC globally for one instruction, on its way from x2APIC
 * to xAPIC mode.
 *
 * Rules here, in source.c, in pmu/guest_pmi.c, and in everything that they call: no fault, no lock,
 * no print, no VMREAD or VMWRITE (except as pmu/guest_pmi.c explains), no IRET.
 * tests/static/nmi_context.py looks for violations in the machine code. Of these files, only
 * nmi.asm executes an IRET, and only if no NMI was forwarded to the guest. The code that ends the
 * machine may break the rules, because it does not return.
 */
#include "nmi/nmi.h"

#include "apic/apic.h"
#include "nmi/host_work.h"
#include "pmu/pmu.h"
#include "vmx/root/end.h"
#include "vmx/root/fault.h"

static bool is_on_nmi_stack(const struct cpu *cpu, uint64_t rsp)
{
    return cpu->nmi_stack - rsp < STACK_PAGES * PAGE_SIZE;
}

/* If in doubt, returns true, so the guest may get an NMI that nobody raised. nmi.h names the two
 * cases in which this function returns false and an NMI is lost. */
bool nmi_may_include_guest_nmi(const struct cpu *cpu)
{
    return __atomic_load_n(&cpu->nmi.notes, __ATOMIC_RELAXED) & NOTE_FORWARDED ||
           pmu_pmi_raised(cpu);
}

bool nmi_forward(struct cpu *cpu)
{
    /* Set the note before the send. If this NMI merges with another NMI, the handler of that NMI
     * must find the note. */
    __atomic_fetch_or(&cpu->nmi.notes, NOTE_FORWARDED | NOTE_FRESH, __ATOMIC_RELAXED);
    if (apic_send_self_nmi()) {
        cpu->nmi.forwarded++;
        return true;
    }
    cpu->nmi.dropped++;
    return false;
}

enum nmi_return nmi_root(const struct nmi_frame *interrupted)
{
    struct cpu *cpu = this_cpu();

    if (processor_is_stopped(cpu)) {
        if (!cpu->ended)
            (void)nmi_claim(cpu, FOUND_IN_ROOT, interrupted->rip, true);
        processor_end(cpu, interrupted->rip, true);
    }
    if (is_on_nmi_stack(cpu, interrupted->rsp))
        hypervisor_fault("an NMI interrupted the NMI handler, at image offset 0x%lx: something "
                         "unblocked NMIs there, wanted blocked until its end; look for firmware "
                         "whose SMI handler executes IRET",
                         interrupted->rip - cpu->boot->image.base);
    struct cpu_nmi *nmi = &cpu->nmi;
    enum nmi_return back = host_work_stop_counter(cpu) ? NMI_RETURN_COUNTING : NMI_RETURN_UNBLOCKED;

    nmi->root++;
    unsigned claimed = nmi_claim(cpu, FOUND_IN_ROOT, interrupted->rip, true);
    /* During host work the host uses the PMU, so the PMU's state says nothing about the guest. And
     * no forwarded NMI still waits, because nmi_hold() has let all forwarded NMIs arrive. */
    if (claimed != 0 && (cpu->pmu.host_work != NULL || !nmi_may_include_guest_nmi(cpu)))
        return back;
    /* Before the guest's first instruction, and while the guest waits for a SIPI, the NMI cannot be
     * for the guest. If it stayed pending, it would hit a guest without an IDT. Natively it would
     * have hit firmware, or an INIT would have discarded it. */
    if (!nmi->guest_started) {
        nmi->before_guest++;
        return back;
    }
    if (!(cpu->boot->options.bookkeeping & BOOKKEEPING_SKID)) {
        nmi->dropped++;
        return back;
    }
    /* During host work, hold the NMI. nmi_release() sends it again at the end. Several held NMIs
     * become one. */
    if (nmi->hold) {
        nmi->held = true;
        return back;
    }
    /* If the NMI is a PMI, freeze whatever the guest's DEBUGCTL would have frozen. (In root mode,
     * DEBUGCTL is 0, so the PMI froze nothing.) */
    pmu_freeze_as_guest(cpu);
    return nmi_forward(cpu) ? NMI_RETURN_BLOCKED : back;
}
