/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The table of host NMI sources. Handlers run in NMI context too: no lock, no print, no VMREAD or
 * VMWRITE, no fault. Thesis, sections 2.6.1 and 3.2.1.
 *
 * A request from another processor is two notes. "Asked" is set before the NMI is sent, and whoever
 * takes an NMI of it answers it. "Sending" stands until the ICR has done its work. A request that
 * is asked, not being sent, and still there while root mode takes NMIs, has had its NMI: the guest
 * took it. Without the second note the check after an exit could answer a request whose NMI is
 * still on its way, and that NMI would then reach the guest as one that nobody claims.
 */
#include "nmi/nmi.h"

#include "apic/apic.h"
#include "nmi/host_work.h"

/* Takes the request away, in one step, because an NMI may come in between. Who has an NMI in hand
 * answers any request; the check after an exit only one whose NMI has come and gone. */
static bool backtrace_take(struct cpu *cpu, enum nmi_found found)
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

static const struct {
    const char *name;
    bool (*take)(struct cpu *cpu, enum nmi_found found);
    void (*handle)(struct cpu *cpu, uint64_t rip, bool in_root);
} sources[SOURCE_COUNT] = {
    [SOURCE_BACKTRACE] = {"backtrace request", backtrace_take, backtrace_handle},
    [SOURCE_HOST_PMI] = {"host PMI", host_work_pmi_take, host_work_pmi_handle},
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
        cpu->nmi.source[s].found[found]++;
        claimed++;
        /* The PMI may have come after this NMI. Its own is pending then, and the others' to claim. If
         * the two have merged, the next exit finds what the others want. */
        if (s == SOURCE_HOST_PMI)
            break;
        /* Its own NMI may still come: another one may have been taken for it. */
        __atomic_fetch_or(&cpu->nmi.notes, NOTE_OWED, __ATOMIC_RELAXED);
    }
    return claimed;
}

bool nmi_request_backtrace(struct cpu *target)
{
    const uint32_t asked = NOTE_ASKED(SOURCE_BACKTRACE), sending = NOTE_SENDING(SOURCE_BACKTRACE);

    if (__atomic_load_n(&target->nmi.notes, __ATOMIC_ACQUIRE) & asked)
        return true; /* one is on its way, and will do for both */
    __atomic_fetch_or(&target->nmi.notes, asked | sending, __ATOMIC_ACQ_REL);
    target->nmi.source[SOURCE_BACKTRACE].raised++;
    bool sent = apic_send(target->apic_id, ICR_NMI);
    __atomic_fetch_and(&target->nmi.notes, sent ? ~sending : ~(asked | sending), __ATOMIC_RELEASE);
    return sent;
}
