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

    nmi->lost_mask = (uint32_t)(REQUEST_LOG | REQUEST_LVTPC);
    if (o->bookkeeping & BOOKKEEPING_LOST)
        nmi->lost_mask |= (uint32_t)REQUESTS_SENT;
    /* While NMIs exit, the guest's blocking is virtual, and root mode was not blocked by it. */
    nmi->unblock_mask = 0;
    if (nmi->passthrough && o->bookkeeping & BOOKKEEPING_UNBLOCK && !o->unblock_lazy)
        nmi->unblock_mask = BLOCKING_BY_NMI;
    /* Alone, and with the platform's NMIs the guest's, a processor gets no NMI for the host outside
     * host work, which asks for nothing here. */
    bool watch = o->pmu && o->bookkeeping & BOOKKEEPING_SKID && nmi_host_can_send(cpu);
    const volatile uint32_t *lvtpc = watch ? apic_lvtpc_register() : NULL;
    nmi->no_lvtpc = LVT_MASKED; /* "masked at the exit": nothing can have merged */
    nmi->lvtpc = lvtpc != NULL ? lvtpc : &nmi->no_lvtpc;
    __atomic_fetch_and(&nmi->requests, ~(uint32_t)REQUEST_LVTPC, __ATOMIC_RELAXED);
    if (watch && lvtpc == NULL)
        __atomic_fetch_or(&nmi->requests, (uint32_t)REQUEST_LVTPC, __ATOMIC_RELAXED);
}

bool guest_pmi_raised(void)
{
    return apic_lvtpc_read() & LVT_MASKED &&
           rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_OVERFLOWS;
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

    if (nmi->requests & REQUEST_LVTPC)
        nmi->lvtpc_at_exit = apic_lvtpc_read();
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
        (void)nmi_claim(cpu, FOUND_LATE, vmcs_read_natural(VMCS_GUEST_RIP), false);
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
    log_printf("%-18s %8s %8s %10s %9s\n", "host NMI source", "raised", "in root", "recovered",
               "returned");
    for (unsigned s = 0; s < SOURCE_COUNT; s++)
        log_printf("%-18s %8lu %8lu %10lu %9lu\n", nmi_source_name((enum nmi_source)s),
                   nmi->source[s].raised, nmi->source[s].in_root, nmi->source[s].recovered,
                   nmi->source[s].returned);
}
