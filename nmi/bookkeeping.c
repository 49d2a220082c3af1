/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMIs in exit context: the bookkeeping of each exit, the guest's hypercall, the start and end of
 * host work, requests to other processors, and the report. Thesis, section 3.2: P1, NMIs are
 * handled by the intended entity; P2, the NMI state of one entity does not affect another.
 */
#include "nmi/nmi.h"

#include "apic/apic.h"
#include "pmu/pmu.h"

void nmi_bookkeeping_setup(struct cpu *cpu)
{
    const struct options *o = &cpu->boot->options;
    struct cpu_nmi *nmi = &cpu->nmi;

    nmi->notes_mask = NOTE_FORWARDED | NOTE_OWED | NOTE_LOG;
    if (o->bookkeeping & BOOKKEEPING_LOST)
        nmi->notes_mask |= NOTES_ASKED;
    /* While NMIs exit, the guest's blocking is virtual and has not blocked root mode. */
    bool unblock = nmi->passthrough && o->bookkeeping & BOOKKEEPING_UNBLOCK && !o->unblock_lazy;
    nmi->unblock_mask = unblock ? BLOCKING_BY_NMI : 0;
}

/* Clears FORWARDED and OWED if they no longer apply. An exit calls this function at most once, with
 * NMIs unblocked. Each call is one "look".
 *
 * FORWARDED means that an NMI was sent to the guest again. FRESH means that this happened since the
 * last look. The first look after the send clears only FRESH, because the NMI may have been sent
 * during this same exit, and may still wait for the entry. The next look clears FORWARDED. Between
 * the two looks the guest was entered, and root mode ran with NMIs unblocked, so the NMI has
 * arrived. If it arrived in root mode instead of the guest, root mode sent it again and set FRESH
 * again.
 *
 * OWED means that the guest may have a host NMI. This ends when the guest is outside its NMI
 * handler and nobody is sending. A sender is done when apic_send() returns. In x2APIC mode,
 * however, the hardware does not confirm that the NMI has arrived by then.
 *
 * An NMI may arrive between any two lines here. If the NMI handler forwards this NMI, the handler
 * sets FRESH. The exchange then fails, and the loop sees FRESH. */
static void clear_expired_notes(struct cpu *cpu)
{
    uint32_t *notes = &cpu->nmi.notes;
    bool guest_is_done = !(cpu->blocking & BLOCKING_BY_NMI) && !cpu->nmi.due;

    if (__atomic_fetch_and(notes, ~NOTE_FRESH, __ATOMIC_ACQ_REL) & NOTE_FRESH)
        return;
    uint32_t now = __atomic_load_n(notes, __ATOMIC_ACQUIRE), over;
    do {
        if (now & NOTE_FRESH)
            return;
        over = NOTE_FORWARDED;
        if (guest_is_done && !(now & NOTES_SENDING))
            over |= NOTE_OWED;
    } while (!__atomic_compare_exchange_n(notes, &now, now & ~over, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
}

bool nmi_request_backtrace(struct cpu *target)
{
    const uint32_t asked = NOTE_ASKED(SOURCE_BACKTRACE), sending = NOTE_SENDING(SOURCE_BACKTRACE);

    if (__atomic_load_n(&target->nmi.notes, __ATOMIC_ACQUIRE) & asked)
        return true; /* a request is already on its way and serves this caller, too */
    __atomic_fetch_or(&target->nmi.notes, asked | sending, __ATOMIC_ACQ_REL);
    target->nmi.source[SOURCE_BACKTRACE].raised++;
    bool sent = apic_send(target->apic_id, ICR_NMI);
    __atomic_fetch_and(&target->nmi.notes, sent ? ~sending : ~(asked | sending), __ATOMIC_RELEASE);
    return sent;
}

int64_t nmi_claim_unknown(struct cpu *cpu)
{
    unsigned claimed = nmi_claim(cpu, FOUND_RETURNED, vmcs_read_natural(VMCS_GUEST_RIP), false);

    if (claimed != 0)
        return claimed;
    /* Read the notes after the claim, because an NMI may just have answered the request and set
     * OWED. */
    return __atomic_load_n(&cpu->nmi.notes, __ATOMIC_RELAXED) & NOTE_OWED ? 1 : 0;
}

static void log_backtrace(struct cpu *cpu)
{
    struct cpu_nmi *nmi = &cpu->nmi;

    __atomic_fetch_and(&nmi->notes, ~NOTE_LOG, __ATOMIC_RELAXED);
    log_printf("pmuvisor: backtrace: processor %u was %s 0x%lx\n", cpu->apic_id,
               nmi->backtrace_in_root ? "in root mode at image offset" : "in the guest at RIP",
               nmi->backtrace_rip - (nmi->backtrace_in_root ? cpu->boot->image.base : 0));
}

void nmi_process_notes(struct cpu *cpu)
{
    struct cpu_nmi *nmi = &cpu->nmi;

    uint32_t reason = vmcs_read_32(VMCS_EXIT_REASON);
    /* After an NMI exit, NMIs are blocked in root mode until exit_nmi() has claimed the NMI. After
     * a failed entry, NMIs may be blocked, too. So leave the notes to a later exit. */
    if (reason == EXIT_REASON_EXCEPTION_OR_NMI || reason & EXIT_REASON_ENTRY_FAILURE)
        return;
    /* With unblock=lazy, NMIs may still be blocked here. A requested or forwarded NMI may then wait
     * in hardware. Such an NMI is not lost, so leave its note alone. */
    if (!nmi->passthrough || !(cpu->blocking & BLOCKING_BY_NMI) || nmi->unblock_mask != 0) {
        if (nmi->notes & nmi->notes_mask & NOTES_ASKED)
            (void)nmi_claim(cpu, FOUND_LATE, vmcs_read_natural(VMCS_GUEST_RIP), false);
        if (nmi->notes & (NOTE_FORWARDED | NOTE_OWED))
            clear_expired_notes(cpu);
    }
    /* An INIT exit has no time to log (vmx/exit/init_sipi.c). */
    if (nmi->notes & NOTE_LOG && reason != EXIT_REASON_INIT_SIGNAL)
        log_backtrace(cpu);
}

void nmi_hold(struct cpu *cpu)
{
    cpu->nmi.hold = true;
    if (cpu->boot->options.bookkeeping & BOOKKEEPING_UNBLOCK)
        nmi_unblock();
}

void nmi_release(struct cpu *cpu)
{
    struct cpu_nmi *nmi = &cpu->nmi;

    nmi->hold = false;
    __asm__ volatile("" : : : "memory"); /* an NMI from here on is forwarded, not held */
    if (nmi->held) {
        nmi->held = false;
        pmu_freeze_as_guest(cpu);
        (void)nmi_forward(cpu);
    }
}

void nmi_report(const struct cpu *cpu)
{
    const struct cpu_nmi *nmi = &cpu->nmi;

    log_printf("NMIs: exits %lu, injected %lu; in root mode %lu, of these forwarded %lu, dropped "
               "%lu; unblocked at %lu exits\n",
               nmi->exits, nmi->injected, nmi->root, nmi->forwarded, nmi->dropped, nmi->unblocked);
    if (nmi->before_guest != 0)
        log_printf(
            "NMIs before the guest's first instruction, or while it waited for a SIPI: %lu\n",
            nmi->before_guest);
    log_printf("%-18s %8s %8s %10s %9s\n", "host NMI source", "raised", "in root", "recovered",
               "returned");
    for (unsigned s = 0; s < SOURCE_COUNT; s++) {
        const struct nmi_source_count *n = &nmi->source[s];
        log_printf("%-18s %8lu %8lu %10lu %9lu\n", nmi_source_name((enum nmi_source)s), n->raised,
                   n->found[FOUND_IN_ROOT], n->found[FOUND_LATE], n->found[FOUND_RETURNED]);
    }
}
