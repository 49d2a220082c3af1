/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMIs that reach root mode. A file's name says in which context its functions run:
 *   nmi.asm nmi.c source.c                    NMI context: root mode may be at any instruction.
 *                                             nmi.c has the rules; pmu/guest_pmi.c keeps them, too
 *   bookkeeping.c exit.c host_work.c          exit context: the rules of root mode
 *   unblock.asm
 *   notes.h                                   the word that both share
 * Exit context calls NMI context, never the other way round. Code that keeps the rules of NMI
 * context is safe in exit context, too.
 */
#pragma once

#include "nmi/notes.h"

/* ======== NMI context ======== */

/* nmi.asm: the IDT's target for vector 2, on the NMI stack (IST). */
extern const char nmi_entry[];

/* How nmi.asm returns to the code that it interrupted. */
enum nmi_return {
    NMI_RETURN_UNBLOCKED, /* IRET */
    NMI_RETURN_BLOCKED,   /* without IRET: the guest's NMI is pending again in hardware */
    NMI_RETURN_COUNTING,  /* IRET, after the host's counter was started again */
};

/* The frame that the processor pushed, lowest address first (SDM Vol. 3, "64-Bit Mode Stack
 * Frame"). */
struct nmi_frame {
    uint64_t rip;
    uint64_t cs;
    uint64_t rflags;
    uint64_t rsp;
    uint64_t ss;
};

/* ---- nmi.c: an NMI in root mode ---- */

/* nmi.asm calls this with NMIs blocked, and passes the frame of the interrupted code. Does not
 * return if the interrupted code was this handler itself. */
enum nmi_return nmi_root(const struct nmi_frame *interrupted);

/* Called when a host source has claimed an NMI. Returns whether an NMI for the guest merged with
 * it. Returns true if an NMI for the guest was forwarded and may still wait, or if the guest's PMU
 * has raised a PMI (pmu_pmi_raised() has the evidence).
 *
 * The answer errs on the side of true. NOTE_FORWARDED stands until the second exit after the guest
 * got the forwarded NMI. A PMI's evidence stands while the guest serves the PMI. A host NMI in that
 * time gives the guest one extra NMI, which nobody raised. (LVTPC's mask bit at the exit proves
 * nothing about this, because just before the exit the PMI may have been on its way.)
 *
 * The answer is false, and an NMI is lost, in two cases. In the first case, an NMI for the guest
 * that is no PMI merges with a host NMI. In the second case, an NMI for the guest that was sent
 * again is still on its way (x2APIC) at the second exit after the send. */
bool nmi_may_include_guest_nmi(const struct cpu *cpu);

/* Sends an NMI for the guest to this processor itself, so that hardware holds the NMI for the
 * guest. Sets the notes of a forwarded NMI. Returns false if the local APIC could not send. Then
 * the NMI is lost (counted as dropped). */
bool nmi_forward(struct cpu *cpu);

/* ---- source.c: who may have raised the NMI that arrived, and how it is answered ---- */

/* Says how an NMI from a source was found. */
enum nmi_found { FOUND_IN_ROOT, FOUND_LATE, FOUND_RETURNED };

/* Asks each of this processor's sources and handles the pending sources. Returns the number of
 * pending sources. `rip` is the interrupted instruction; `in_root` says whether root mode was
 * interrupted. */
unsigned nmi_claim(struct cpu *cpu, enum nmi_found found, uint64_t rip, bool in_root);

/* The port of the platform's NMIs (chipset data books, "NMI Status and Control Register"). */
#define NMI_STATUS_PORT 0x61
#define NMI_STATUS_SERR BIT(7)
#define NMI_STATUS_IOCHK BIT(6)
#define NMI_STATUS_DISABLES BITS(3, 2) /* IOCHK and SERR: 1 clears the source and disables it */
#define NMI_STATUS_GUEST BITS(1, 0)    /* speaker and timer 2 gate */

/* With platform_nmi=host, returns whether SERR or IOCHK of port 0x61 is up; otherwise false. */
bool platform_nmi_pending(const struct cpu *cpu);

const char *nmi_source_name(enum nmi_source source);

/* ======== exit context ======== */

/* unblock.asm: ends NMI blocking in root mode by an IRET to its own return (thesis, Listing 1). */
void nmi_unblock(void);

/* ---- exit.c: NMIs of a guest that does not take them itself ---- */

/* Called at the start, with the VMCS current. Turns NMI passthrough on or off as the policy
 * says. */
void nmi_setup(struct cpu *cpu, bool can_trap);
/* Switches NMI passthrough. No NMI that is due or pending is lost or doubled. False: this processor
 * cannot trap NMIs. */
bool nmi_set_passthrough(struct cpu *cpu, bool on);
/* Forgets the waiting virtual NMI, for an INIT of the guest's processor. */
void nmi_discard_due(struct cpu *cpu);
/* Exit handlers. exit_nmi(): an NMI arrived in the guest. exit_nmi_window(): the guest is ready for
 * a virtual NMI. */
void exit_nmi(struct cpu *cpu);
void exit_nmi_window(struct cpu *cpu);

/* ---- bookkeeping.c: NMI work at an exit and around host work. Thesis, section 3.2. ---- */

/* Chooses what an exit checks. The choice depends on the options and on NMI passthrough. */
void nmi_bookkeeping_setup(struct cpu *cpu);

/* Every exit makes this one test before its handler runs. Returns true if root mode must be
 * unblocked (cpu->blocking), or if nmi_process_notes() may have something to do. This test ignores
 * the mask by which options limit what nmi_process_notes() does (notes_mask). */
static inline bool nmi_has_exit_work(const struct cpu *cpu)
{
    const struct cpu_nmi *nmi = &cpu->nmi;

    return (cpu->blocking & nmi->unblock_mask) != 0 || (nmi->notes & NOTES_FOR_EXIT) != 0;
}

/* Called when notes are set. Answers requests whose NMI the guest took, clears notes that are over,
 * and logs. If the options say so, the caller has already unblocked root mode. */
void nmi_process_notes(struct cpu *cpu);

/* Called when the guest hands back an NMI that none of its handlers claims. Answers the host's
 * waiting requests. Returns 0 if this NMI cannot have been a host NMI. */
int64_t nmi_claim_unknown(struct cpu *cpu);

/* Called before and after host work, which takes its own NMIs. During host work, the guest's NMIs
 * wait in software, and root mode is not blocked. nmi_release() makes the waiting NMI pending in
 * hardware again. */
void nmi_hold(struct cpu *cpu);
void nmi_release(struct cpu *cpu);

/* Asks another processor, or this one, to log its current instruction. The request is a note and an
 * NMI. Each target can have only one sender at a time. Returns false if nothing was sent. */
bool nmi_request_backtrace(struct cpu *target);

/* Logs the counts of all sources. */
void nmi_report(const struct cpu *cpu);
