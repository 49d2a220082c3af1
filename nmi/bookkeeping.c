/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMI bookkeeping outside NMI context. Thesis, section 3.2: P1, NMIs are handled by the intended
 * entity; P2, the NMI state of one entity does not affect another.
 */
#include "bookkeeping.h"

#include "log.h"
#include "msr.h"
#include "nmi.h"
#include "source.h"
#include "../vmx/vmcs.h"
#include "x86.h"

#define GLOBAL_STATUS_OVERFLOWS (BITS(31, 0) | BITS(54, 32)) /* counters, not freezes or trace */

void nmi_bookkeeping_setup(struct cpu *cpu)
{
    const struct options *o = &cpu->boot->options;
    struct cpu_nmi *nmi = &cpu->nmi;

    nmi->lost_mask = (uint32_t)(REQUEST_LOG | REQUEST_OWED | REQUEST_FORWARDED);
    if (o->bookkeeping & BOOKKEEPING_LOST)
        nmi->lost_mask |= (uint32_t)REQUESTS_SENT;
    /* While NMIs exit, the guest's blocking is virtual, and root mode was not blocked by it. */
    nmi->unblock_mask = 0;
    if (nmi->passthrough && o->bookkeeping & BOOKKEEPING_UNBLOCK && !o->unblock_lazy)
        nmi->unblock_mask = BLOCKING_BY_NMI;
}

bool nmi_guest_merged(const struct cpu *cpu)
{
    if (cpu->nmi.requests & REQUEST_FORWARDED)
        return true;
    return cpu->boot->options.pmu && apic_lvtpc_read() & LVT_MASKED &&
           rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_OVERFLOWS;
}

void nmi_mark_forwarded(struct cpu *cpu)
{
    __atomic_fetch_or(&cpu->nmi.requests, (uint32_t)REQUEST_FORWARDED, __ATOMIC_RELAXED);
}

/* The guest may see `count` more NMIs that nobody there claims; REQUEST_OWED brings us back to forget
 * about them when its handler is over. */
static void owe(struct cpu *cpu, unsigned count)
{
    if (count == 0)
        return;
    cpu->nmi.owed += count;
    __atomic_fetch_or(&cpu->nmi.requests, (uint32_t)REQUEST_OWED, __ATOMIC_RELAXED);
}

unsigned nmi_returned(struct cpu *cpu)
{
    struct cpu_nmi *nmi = &cpu->nmi;

    owe(cpu, nmi_claim(cpu, FOUND_RETURNED, vmcs_read_natural(VMCS_GUEST_RIP), false));
    unsigned owed = nmi->owed;
    if (owed != 0)
        nmi->owed--;
    return owed;
}

static void log_backtrace(struct cpu *cpu)
{
    struct cpu_nmi *nmi = &cpu->nmi;

    __atomic_fetch_and(&nmi->requests, ~(uint32_t)REQUEST_LOG, __ATOMIC_RELAXED);
    log_printf("pmuvisor: backtrace: processor %u was %s at RIP 0x%lx\n", cpu->apic_id,
               nmi->backtrace_in_root ? "in root mode" : "in the guest", nmi->backtrace_rip);
}

void nmi_bookkeeping(struct cpu *cpu)
{
    struct cpu_nmi *nmi = &cpu->nmi;

    if (cpu->blocking & nmi->unblock_mask) {
        /* Host NMIs that waited for the guest's IRET arrive right here. The entry blocks again. */
        nmi->unblocked++;
        nmi_unblock();
    }
    if (!(nmi->requests & nmi->lost_mask))
        return;
    /* With root mode still blocked the NMI may be waiting in hardware: then it is not lost yet. */
    bool blocked = nmi->passthrough && cpu->blocking & BLOCKING_BY_NMI && nmi->unblock_mask == 0;
    if (nmi->requests & REQUESTS_SENT && !blocked)
        owe(cpu, nmi_claim(cpu, FOUND_LATE, vmcs_read_natural(VMCS_GUEST_RIP), false));
    if (!(cpu->blocking & BLOCKING_BY_NMI)) {
        /* The guest is in no handler and nothing waits for its IRET: what was forwarded has arrived,
         * and what it saw as unknown is behind it. */
        nmi->owed = 0;
        __atomic_fetch_and(&nmi->requests, ~(uint32_t)(REQUEST_OWED | REQUEST_FORWARDED),
                           __ATOMIC_RELAXED);
    }
    if (nmi->requests & REQUEST_LOG)
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
        log_printf("NMIs before the guest's first instruction: %lu\n", nmi->before_guest);
    log_printf("%-18s %8s %8s %10s %9s\n", "host NMI source", "raised", "in root", "recovered",
               "returned");
    for (unsigned s = 0; s < SOURCE_COUNT; s++)
        log_printf("%-18s %8lu %8lu %10lu %9lu\n", nmi_source_name((enum nmi_source)s),
                   nmi->source[s].raised, nmi->source[s].in_root, nmi->source[s].recovered,
                   nmi->source[s].returned);
}
