/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMIs that reach root mode. A file's name says in which context its functions run:
 *   nmi.asm nmi.c source.c                    NMI context: root mode may be at any instruction.
 *                                             nmi.c has the rules; pmu/guest_pmi.c obeys them, too
 *   bookkeeping.c exit.c host_work.c          exit context: the rules of root mode
 *   unblock.asm
 *   notes.h                                   the word that both share
 * Exit context calls NMI context, never the other way round. Code that keeps the rules of NMI
 * context is safe in exit context, too.
 */
#pragma once

#include "nmi/notes.h"

/* ======== NMI context ======== */

/* nmi.asm: the entry point for NMIs (vector 2 in the IDT), on the NMI stack (IST). */
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
 * return if this handler has interrupted itself, or if another processor has stopped this one. */
enum nmi_return nmi_root(const struct nmi_frame *interrupted);

/* Called when a host source has claimed an NMI. Returns whether an NMI for the guest may have
 * merged with it. Returns true if an NMI for the guest was forwarded and may still wait, or if the
 * guest's PMU has raised a PMI (pmu_pmi_raised() has the evidence).
 *
 * If in doubt, the answer is true. NOTE_FORWARDED stays set until the second exit after the guest
 * got the forwarded NMI. The evidence of a PMI stays while the guest serves the PMI. A host NMI in
 * that time gives the guest one extra NMI, which nobody raised. (LVTPC's mask bit at the exit would
 * prove nothing, because a PMI may have been on its way just before.)
 *
 * In two cases the answer is false, and an NMI is lost. In the first case, an NMI for the guest
 * that is not a PMI merges with a host NMI. In the second case, an NMI for the guest that was sent
 * again is still on its way (x2APIC) at the second exit after the send. */
bool nmi_may_include_guest_nmi(const struct cpu *cpu);

/* Sends an NMI for the guest to this processor itself, so that hardware holds the NMI for the
 * guest. Sets the notes of a forwarded NMI. If the local APIC cannot send, the NMI is lost (counted
 * as dropped), and the function returns false. */
bool nmi_forward(struct cpu *cpu);

/* ---- source.c: the sources that may have raised an NMI, and how each source handles it ---- */

/* The ways in which the NMI of a host source is found, see struct nmi_source_count. */
enum nmi_found { FOUND_IN_ROOT, FOUND_LATE, FOUND_RETURNED };

/* Asks the host's sources on this processor one after the other. Each source that claims the NMI
 * handles it. A PMI of host work ends the search. Returns the number of claims. `rip` is the
 * interrupted instruction; `in_root` says whether root mode was interrupted. */
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

/* Called at the start, with the VMCS current. Turns NMI passthrough on or off, as the policy
 * requires. */
void nmi_setup(struct cpu *cpu, bool can_trap);
/* Turns NMI passthrough on or off. No NMI that is due or pending is lost or doubled. False: this
 * processor cannot trap NMIs. */
bool nmi_set_passthrough(struct cpu *cpu, bool on);
/* Drops the virtual NMI that is due, when the guest's processor gets an INIT. */
void discard_virtual_nmi(struct cpu *cpu);
/* Exit handlers. exit_nmi(): an NMI arrived in the guest. exit_nmi_window(): the guest is ready for
 * a virtual NMI. */
void exit_nmi(struct cpu *cpu);
void exit_nmi_window(struct cpu *cpu);

/* ---- bookkeeping.c: NMI work at an exit and around host work. Thesis, section 3.2. ---- */

/* Sets the masks of what an exit checks, from the options and NMI passthrough. */
void nmi_bookkeeping_setup(struct cpu *cpu);

/* Every exit makes this one test before its handler runs. Returns true if NMIs must be unblocked in
 * root mode (cpu->blocking), or if a note is set that exits handle. This test ignores notes_mask,
 * by which options leave out notes: handle_nmi_work() applies the mask. */
static inline bool nmi_has_exit_work(const struct cpu *cpu)
{
    const struct cpu_nmi *nmi = &cpu->nmi;

    return (cpu->blocking & nmi->unblock_mask) != 0 || (nmi->notes & NOTES_FOR_EXIT) != 0;
}

/* Called when notes are set. Answers requests whose NMI the guest took, clears notes that no longer
 * apply, and logs. The caller has unblocked NMIs, unless an option forbids this. */
void nmi_process_notes(struct cpu *cpu);

/* Called when the guest hands back an NMI that none of its handlers claims. Answers the host's
 * waiting requests. Returns 0 if this NMI cannot have been a host NMI. */
int64_t nmi_claim_unknown(struct cpu *cpu);

/* Called before and after host work. In between, the host takes its own NMIs: NMIs for the guest
 * wait in software, and root mode runs with NMIs unblocked. nmi_release() makes the waiting NMI
 * pending in hardware again. */
void nmi_hold(struct cpu *cpu);
void nmi_release(struct cpu *cpu);

/* Asks another processor, or this one, to log its current instruction. The request is a note and an
 * NMI. The caller makes sure that each target has only one sender at a time. Returns false if the
 * NMI could not be sent. */
bool nmi_request_backtrace(struct cpu *target);

/* Logs the counts of NMIs, in total and by source. */
void nmi_report(const struct cpu *cpu);
