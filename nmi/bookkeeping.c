/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMI bookkeeping outside NMI context. Thesis, section 3.2: P1, NMIs are handled by the intended
 * entity; P2, the NMI state of one entity does not affect another.
 */
#include "nmi.h"

#include "../apic/apic.h"
#include "../pmu/pmu.h"

#define EXITS_TO_FORGET 2 /* tests/model/: with one, a sender between ICR and "sent" is forgotten */

void nmi_bookkeeping_setup(struct cpu *cpu)
{
    const struct options *o = &cpu->boot->options;
    struct cpu_nmi *nmi = &cpu->nmi;

    nmi->lost_mask = (uint32_t)(REQUEST_LOG | REQUEST_WATCH);
    /* NMIs that exit are never the guest's to lose, and the check at an NMI's own exit would take
     * away what its handler has to claim. */
    if (o->bookkeeping & BOOKKEEPING_LOST && nmi->passthrough)
        nmi->lost_mask |= (uint32_t)REQUESTS_SENT;
    /* While NMIs exit, the guest's blocking is virtual, and root mode was not blocked by it. */
    nmi->unblock_mask = 0;
    if (nmi->passthrough && o->bookkeeping & BOOKKEEPING_UNBLOCK && !o->unblock_lazy)
        nmi->unblock_mask = BLOCKING_BY_NMI;
}

bool nmi_guest_merged(const struct cpu *cpu)
{
    return cpu->nmi.in_flight != 0 || pmu_pmi_raised(cpu);
}

/* Both bring every exit here (REQUEST_WATCH) until they are forgotten. */
static void remember(struct cpu *cpu, uint8_t *what)
{
    __atomic_store_n(what, EXITS_TO_FORGET, __ATOMIC_RELAXED);
    __atomic_fetch_or(&cpu->nmi.requests, (uint32_t)REQUEST_WATCH, __ATOMIC_RELAXED);
}

void nmi_mark_forwarded(struct cpu *cpu) { remember(cpu, &cpu->nmi.in_flight); }
void nmi_owe(struct cpu *cpu) { remember(cpu, &cpu->nmi.owed); }

static void forget(uint8_t *what)
{
    uint8_t now = __atomic_load_n(what, __ATOMIC_RELAXED);

    /* An NMI in between may remember anew: then nothing is taken off. */
    if (now != 0)
        (void)__atomic_compare_exchange_n(what, &now, (uint8_t)(now - 1), false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
}

/* An exit that finds the guest in no handler, nothing due, no sender under way, and that no NMI
 * caused, is one exit nearer to the end of what was remembered. */
static void forget_slowly(struct cpu *cpu)
{
    struct cpu_nmi *nmi = &cpu->nmi;

    if (cpu->blocking & BLOCKING_BY_NMI || nmi->due || nmi->requests & REQUESTS_PENDING ||
        vmcs_read_32(VMCS_EXIT_REASON) == EXIT_REASON_EXCEPTION_OR_NMI)
        return;
    forget(&nmi->owed);
    forget(&nmi->in_flight);
    /* First the bit, then the look: what an NMI remembers in between brings the bit back. */
    __atomic_fetch_and(&nmi->requests, ~(uint32_t)REQUEST_WATCH, __ATOMIC_RELAXED);
    if (nmi->owed != 0 || nmi->in_flight != 0)
        __atomic_fetch_or(&nmi->requests, (uint32_t)REQUEST_WATCH, __ATOMIC_RELAXED);
}

int64_t nmi_returned(struct cpu *cpu)
{
    unsigned claimed = nmi_claim(cpu, FOUND_RETURNED, vmcs_read_natural(VMCS_GUEST_RIP), false);

    return claimed + cpu->nmi.owed;
}

static void log_backtrace(struct cpu *cpu)
{
    struct cpu_nmi *nmi = &cpu->nmi;

    __atomic_fetch_and(&nmi->requests, ~(uint32_t)REQUEST_LOG, __ATOMIC_RELAXED);
    log_printf("pmuvisor: backtrace: processor %u was %s 0x%lx\n", cpu->apic_id,
               nmi->backtrace_in_root ? "in root mode at image offset" : "in the guest at RIP",
               nmi->backtrace_rip - (nmi->backtrace_in_root ? cpu->boot->image.base : 0));
}

void nmi_bookkeeping(struct cpu *cpu)
{
    struct cpu_nmi *nmi = &cpu->nmi;

    /* With root mode still blocked the NMI may be waiting in hardware: then it is not lost yet. */
    bool blocked = nmi->passthrough && cpu->blocking & BLOCKING_BY_NMI && nmi->unblock_mask == 0;
    if (nmi->requests & nmi->lost_mask & REQUESTS_SENT && !blocked)
        (void)nmi_claim(cpu, FOUND_LATE, vmcs_read_natural(VMCS_GUEST_RIP), false);
    if (nmi->requests & REQUEST_WATCH)
        forget_slowly(cpu);
    /* An INIT exit has no time for it (vmx/init.c). */
    if (nmi->requests & REQUEST_LOG && vmcs_read_32(VMCS_EXIT_REASON) != EXIT_REASON_INIT_SIGNAL)
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
        nmi_mark_forwarded(cpu); /* whatever host NMI it merges with */
        (void)apic_send_self_nmi();
    }
}

void nmi_report(const struct cpu *cpu)
{
    const struct cpu_nmi *nmi = &cpu->nmi;

    log_printf("NMIs: exits %lu, injected %lu; in root mode %lu, of these forwarded %lu, dropped "
               "%lu; unblocked at %lu exits\n", nmi->exits, nmi->injected, nmi->root,
               nmi->forwarded, nmi->dropped, nmi->unblocked);
    if (nmi->before_guest != 0)
        log_printf("NMIs before the guest's first instruction, or while it waited for a SIPI: %lu\n",
                   nmi->before_guest);
    log_printf("%-18s %8s %8s %10s %9s\n", "host NMI source", "raised", "in root", "recovered",
               "returned");
    for (unsigned s = 0; s < SOURCE_COUNT; s++) {
        const struct nmi_source_count *n = &nmi->source[s];
        log_printf("%-18s %8lu %8lu %10lu %9lu\n", nmi_source_name((enum nmi_source)s), n->raised,
                   n->found[FOUND_IN_ROOT], n->found[FOUND_LATE], n->found[FOUND_RETURNED]);
    }
}
