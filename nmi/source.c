/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The table of host NMI sources: which sources may have raised an NMI, and how each source handles
 * its NMI. All of this runs in NMI context (nmi.c has the rules). Thesis, sections 2.6.1 and 3.2.1.
 *
 * A request from another processor uses two notes. The sender sets "asked" before it sends the NMI.
 * Whoever takes the request's NMI answers the request. The note "sending" stays set until the ICR
 * has sent the NMI. If "asked" is set, "sending" is not, and NMIs are unblocked in root mode, then
 * the request's NMI has come and the guest took it. If the note "sending" did not exist, the check
 * after an exit could answer a request whose NMI is still on its way. That NMI would then reach the
 * guest, where nobody claims it.
 */
#include "nmi/nmi.h"

#include "apic/apic.h"
#include "nmi/host_work.h"

#define HANDLER_BRANCHES 1 /* the counter counts the NMI handler's IRET (nmi/nmi.asm) */

/* Takes the request by one atomic operation, because an NMI may arrive at any point. When an NMI is
 * handled, any request is answered, even one that is still being sent. The check after an exit
 * answers only a request whose NMI has come and gone. */
static bool backtrace_claim(struct cpu *cpu, enum nmi_found found)
{
    const uint32_t asked = NOTE_ASKED(SOURCE_BACKTRACE), sending = NOTE_SENDING(SOURCE_BACKTRACE);
    uint32_t now = __atomic_load_n(&cpu->nmi.notes, __ATOMIC_ACQUIRE);

    do {
        if (!(now & asked) || (found == FOUND_LATE && now & sending))
            return false;
    } while (!__atomic_compare_exchange_n(&cpu->nmi.notes, &now, now & ~asked, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return true;
}

static void backtrace_handle(struct cpu *cpu, uint64_t rip, bool in_root)
{
    cpu->nmi.backtrace_rip = rip;
    cpu->nmi.backtrace_in_root = in_root;
    __atomic_fetch_or(&cpu->nmi.notes, NOTE_LOG, __ATOMIC_RELAXED);
}

bool platform_nmi_pending(const struct cpu *cpu)
{
    return cpu->boot->options.platform_nmi_host &&
           inb(NMI_STATUS_PORT) & (NMI_STATUS_SERR | NMI_STATUS_IOCHK);
}

/* SERR and IOCHK stay up until they are acknowledged. */
static bool claim_platform_nmi(struct cpu *cpu, UNUSED enum nmi_found found)
{
    return platform_nmi_pending(cpu);
}

/* Chipset data books, "NMI Status and Control Register": writing 1 to the disable bit clears the
 * source, and writing 0 enables it again. */
static void acknowledge_platform_nmi(UNUSED struct cpu *cpu, UNUSED uint64_t rip,
                                     UNUSED bool in_root)
{
    uint8_t kept = (uint8_t)(inb(NMI_STATUS_PORT) & NMI_STATUS_GUEST);

    outb(NMI_STATUS_PORT, (uint8_t)(kept | NMI_STATUS_DISABLES));
    outb(NMI_STATUS_PORT, kept);
}

/* Called before anything else, because the branches of the NMI handler are not part of the workload
 * and might overflow the counter. */
bool host_work_stop_counter(const struct cpu *cpu)
{
    const struct host_work *work = cpu->pmu.host_work;

    if (work == NULL)
        return false;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    return work->counting;
}

/* A PMI arrives some time after the overflow. When it arrives, it masks LVTPC and freezes the
 * counter. So if LVTPC is not masked, the NMI that is being handled is not this PMI, and must leave
 * the overflow alone. If that NMI claimed the overflow, nobody would claim the PMI when it arrives,
 * and the guest would get it.
 *
 * LVTPC may also be masked by a late guest PMI, whose overflow the guest has handled. Such a PMI
 * freezes the host's counter as well. This function undoes the mask and the freeze in either case.
 * But the PMI is the host's only if the host's counter has overflowed. */
static bool host_work_pmi_claim(struct cpu *cpu, enum nmi_found found)
{
    if (found != FOUND_IN_ROOT || cpu->pmu.host_work == NULL || !(apic_lvtpc_read() & LVT_MASKED))
        return false;
    uint64_t status = rdmsr(IA32_PERF_GLOBAL_STATUS);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, status);
    apic_lvtpc_write(LVT_DELIVERY_NMI);
    return status & STATUS_COUNTER_0;
}

/* The counter is stopped during this call. If the work is not done, nmi.asm then starts the counter
 * again. */
static void host_work_pmi_handle(struct cpu *cpu, UNUSED uint64_t rip, UNUSED bool in_root)
{
    struct host_work *work = cpu->pmu.host_work;
    uint64_t next = rdmsr(IA32_PMC0) - work->period - (work->counting ? HANDLER_BRANCHES : 0);

    work->pmis++;
    wrmsr(IA32_A_PMC0, next & COUNTER_BITS);
}

static const struct {
    const char *name;
    bool (*claim)(struct cpu *cpu, enum nmi_found found);
    void (*handle)(struct cpu *cpu, uint64_t rip, bool in_root);
} sources[SOURCE_COUNT] = {
    [SOURCE_HOST_PMI] = {"host PMI", host_work_pmi_claim, host_work_pmi_handle},
    [SOURCE_BACKTRACE] = {"backtrace request", backtrace_claim, backtrace_handle},
    [SOURCE_PLATFORM] = {"platform", claim_platform_nmi, acknowledge_platform_nmi},
};

const char *nmi_source_name(enum nmi_source source) { return sources[source].name; }

unsigned nmi_claim(struct cpu *cpu, enum nmi_found found, uint64_t rip, bool in_root)
{
    unsigned claimed = 0;

    for (unsigned s = 0; s < SOURCE_COUNT; s++) {
        if (!sources[s].claim(cpu, found))
            continue;
        sources[s].handle(cpu, rip, in_root);
        cpu->nmi.source[s].found[found]++;
        claimed++;
        /* Ask no other source after a PMI. This NMI may have come from another source, and the PMI
         * may have arrived while this handler ran. Then the PMI's own NMI is pending, and the other
         * source claims that NMI. If the two NMIs have merged, the next exit handles the other
         * source's request. */
        if (s == SOURCE_HOST_PMI)
            break;
        /* The source's own NMI may still arrive, because this NMI may have had another sender.
         * Nobody claims that late NMI, so the guest gets it and may hand it back
         * (nmi_claim_unknown()). An exit clears OWED when the guest is outside its NMI handler and
         * nobody is sending. */
        __atomic_fetch_or(&cpu->nmi.notes, NOTE_OWED, __ATOMIC_RELAXED);
    }
    return claimed;
}
