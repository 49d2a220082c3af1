/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The table of host NMI sources. Handlers run in NMI context too: no lock, no print, no VMREAD or
 * VMWRITE, no fault. Thesis, sections 2.6.1 and 3.2.1.
 *
 * A request from a processor has two bits. "Requested" is set before the NMI is sent and makes the
 * NMI handler claim it. "Sent" is set when the ICR has done its work. Only a request that is sent,
 * and still there while NMIs are not blocked, was taken by the guest: without the second bit, the
 * check after an exit could answer a request whose NMI is still on its way, and that NMI would then
 * reach the guest as one that nobody claims.
 */
#include "nmi.h"

#include "../apic/apic.h"
#include "../pmu/pmu.h"

/* Takes the request away, if it is one that may be answered: in an NMI handler any, elsewhere one
 * whose NMI has come and gone (see above). One atomic step, because an NMI may come in between. */
static bool backtrace_take(struct cpu *cpu, enum nmi_found found)
{
    uint32_t wanted = BIT(SOURCE_BACKTRACE), sent = BIT(SOURCE_BACKTRACE + REQUEST_SENT);
    uint32_t now = __atomic_load_n(&cpu->nmi.requests, __ATOMIC_ACQUIRE);

    if (found != FOUND_IN_ROOT)
        wanted |= sent;
    do {
        if ((now & wanted) != wanted)
            return false;
    } while (!__atomic_compare_exchange_n(&cpu->nmi.requests, &now,
                                          now & ~(uint32_t)(BIT(SOURCE_BACKTRACE) | sent), false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return true;
}

static void backtrace_handle(struct cpu *cpu, uint64_t rip, bool in_root)
{
    cpu->nmi.backtrace_rip = rip;
    cpu->nmi.backtrace_in_root = in_root;
    __atomic_fetch_or(&cpu->nmi.requests, (uint32_t)REQUEST_LOG, __ATOMIC_RELAXED);
}

bool platform_nmi_pending(const struct cpu *cpu)
{
    return cpu->boot->options.platform_nmi_host &&
           inb(NMI_STATUS_PORT) & (NMI_STATUS_SERR | NMI_STATUS_IOCHK);
}

/* SERR and IOCHK stay up until they are acknowledged. */
static bool platform_take(struct cpu *cpu, UNUSED enum nmi_found found)
{
    return platform_nmi_pending(cpu);
}

/* Chipset data books, "NMI Status and Control Register": writing 1 to the disable bit clears the
 * source, and writing 0 enables it again. */
static void platform_handle(UNUSED struct cpu *cpu, UNUSED uint64_t rip, UNUSED bool in_root)
{
    uint8_t kept = (uint8_t)(inb(NMI_STATUS_PORT) & NMI_STATUS_GUEST);

    outb(NMI_STATUS_PORT, (uint8_t)(kept | NMI_STATUS_DISABLES));
    outb(NMI_STATUS_PORT, kept);
}

static bool host_pmi_take(struct cpu *cpu, enum nmi_found found)
{
    return found == FOUND_IN_ROOT && host_work_pmi_pending(cpu);
}

static const struct {
    const char *name;
    bool (*take)(struct cpu *cpu, enum nmi_found found);
    void (*handle)(struct cpu *cpu, uint64_t rip, bool in_root);
} sources[SOURCE_COUNT] = {
    [SOURCE_BACKTRACE] = {"backtrace request", backtrace_take, backtrace_handle},
    [SOURCE_HOST_PMI] = {"host PMI", host_pmi_take, host_work_pmi_handle},
    [SOURCE_PLATFORM] = {"platform", platform_take, platform_handle},
};

const char *nmi_source_name(enum nmi_source source) { return sources[source].name; }

unsigned nmi_claim(struct cpu *cpu, enum nmi_found found, uint64_t rip, bool in_root)
{
    unsigned claimed = 0;

    for (unsigned s = 0; s < SOURCE_COUNT; s++) {
        if (!sources[s].take(cpu, found))
            continue;
        sources[s].handle(cpu, rip, in_root);
        if (s != SOURCE_HOST_PMI) /* its counter says by itself whether it was there */
            nmi_owe(cpu);
        cpu->nmi.source[s].found[found]++;
        claimed++;
    }
    return claimed;
}

bool nmi_request_backtrace(struct cpu *target)
{
    uint32_t requested = BIT(SOURCE_BACKTRACE);

    if (__atomic_fetch_or(&target->nmi.requests, requested, __ATOMIC_ACQ_REL) & requested)
        return true; /* one is on its way, and will do for both */
    target->nmi.source[SOURCE_BACKTRACE].raised++;
    if (!apic_send(target->apic_id, ICR_NMI)) {
        __atomic_fetch_and(&target->nmi.requests, ~requested, __ATOMIC_RELEASE);
        return false;
    }
    /* Only if it is still there: else a later request would be taken as sent too early. */
    uint32_t now = __atomic_load_n(&target->nmi.requests, __ATOMIC_ACQUIRE);
    while (now & requested &&
           !__atomic_compare_exchange_n(&target->nmi.requests, &now,
                                        now | requested << REQUEST_SENT, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
        ;
    return true;
}
