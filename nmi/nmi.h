/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMIs that reach root mode. A file's name says in which context its functions run:
 *   nmi.asm nmi.c source.c                    NMI context: root mode may be at any instruction.
 *                                             nmi.c has the rules; pmu/guest_pmi.c keeps them, too
 *   exit.c virtual.c host_work.c unblock.asm  exit context: the rules of root mode
 *   notes.h                                   the word that both share
 * Exit context calls NMI context, never the other way round: what holds there holds here.
 */
#pragma once

#include "nmi/notes.h"

/* ======== NMI context ======== */

/* nmi.asm: the IDT's target for vector 2, on the NMI stack (IST). */
extern const char nmi_entry[];

/* How nmi.asm goes back to what it interrupted. */
enum nmi_return {
    NMI_RETURN_UNBLOCKED, /* IRET */
    NMI_RETURN_BLOCKED,   /* without IRET: the guest's NMI is pending again in hardware */
    NMI_RETURN_COUNTING,  /* IRET, after the host's counter was started again */
};

/* What the processor pushed, lowest address first (SDM Vol. 3, "64-Bit Mode Stack Frame"). */
struct nmi_frame {
    uint64_t rip, cs, rflags, rsp, ss;
};

/* ---- nmi.c: an NMI in root mode ---- */

/* What nmi.asm calls with NMIs blocked, with what was interrupted. Does not come back where that
 * was this handler itself. */
enum nmi_return nmi_root(const struct nmi_frame *interrupted);

/* A host source has claimed an NMI: whether one of the guest's merged with it. That is so when one
 * was forwarded and may still wait, or when the guest's PMU has raised a PMI (pmu_pmi_raised() has
 * the evidence).
 * It says no too rarely rather than too often. NOTE_FORWARDED stands up to the second exit after
 * the guest got that NMI; a PMI's evidence stands while the guest serves it. A host NMI meanwhile
 * gives the guest one NMI more, which nobody raised. (Whether LVTPC was masked at the exit proves
 * nothing: the PMI may have been on its way just before.) It says no, and an NMI is lost, where one
 * of the guest's that is no PMI merges with a host NMI, and where one that was sent again is still
 * on its way (x2APIC) at the second exit after it. */
bool nmi_guest_merged(const struct cpu *cpu);

/* Sends an NMI of the guest's to this processor itself, so that hardware holds it for the guest,
 * and notes it. False: the local APIC could not, and it is lost (counted as dropped). */
bool nmi_forward(struct cpu *cpu);

/* ---- source.c: who may have raised the NMI that arrived, and how it is answered ---- */

/* How a source came to be handled. */
enum nmi_found { FOUND_IN_ROOT, FOUND_LATE, FOUND_RETURNED };

/* Asks each source of this processor and handles those that are pending. Gives their number. `rip`
 * is what was interrupted, `in_root` says in which mode. */
unsigned nmi_claim(struct cpu *cpu, enum nmi_found found, uint64_t rip, bool in_root);

/* The port of the platform's NMIs (chipset data books, "NMI Status and Control Register"). */
#define NMI_STATUS_PORT 0x61
#define NMI_STATUS_SERR BIT(7)
#define NMI_STATUS_IOCHK BIT(6)
#define NMI_STATUS_DISABLES BITS(3, 2) /* IOCHK and SERR: 1 clears the source and disables it */
#define NMI_STATUS_GUEST BITS(1, 0)    /* speaker and timer 2 gate */

/* SERR and IOCHK of port 0x61 (platform_nmi=host): whether one is up. */
bool platform_nmi_pending(const struct cpu *cpu);

const char *nmi_source_name(enum nmi_source source);

/* ======== exit context ======== */

/* unblock.asm: ends NMI blocking in root mode by an IRET to its own return (thesis, Listing 1). */
void nmi_unblock(void);

/* ---- virtual.c: NMIs of a guest that does not take them itself ---- */

/* At the start, VMCS current: on or off as the policy says. */
void nmi_setup(struct cpu *cpu, bool can_trap);
/* Switches NMI passthrough; nothing that is due or pending is lost or doubled by it. False: this
 * processor cannot trap NMIs. */
bool nmi_set_passthrough(struct cpu *cpu, bool on);
/* An INIT of the guest's processor forgets the virtual NMI that waited. */
void nmi_forget_due(struct cpu *cpu);
/* Exit handlers: an NMI in the guest, and the guest being ready for a virtual one. */
void exit_nmi(struct cpu *cpu);
void exit_nmi_window(struct cpu *cpu);

/* ---- exit.c: what an exit does about NMIs, and what host work does before and after. Thesis,
 * section 3.2. ---- */

/* Sets what an exit looks at, from the options and from NMI passthrough being on or off. */
void nmi_bookkeeping_setup(struct cpu *cpu);

/* After every exit, before its handler: one test for all of it. True: root mode is to be unblocked
 * (cpu->blocking), or nmi_bookkeeping() may have something to do: options mask what it does. */
static inline bool nmi_after_exit(const struct cpu *cpu)
{
    const struct cpu_nmi *nmi = &cpu->nmi;

    return (cpu->blocking & nmi->unblock_mask) != 0 || (nmi->notes & NOTES_FOR_EXIT) != 0;
}

/* There is something among the notes: answers what the guest took, strikes out what is over, logs.
 * Root mode was unblocked before, where the options say so. */
void nmi_bookkeeping(struct cpu *cpu);

/* The guest hands back an NMI that none of its handlers claims: answers what the host has waiting.
 * Gives 0 when this one cannot have been its. */
int64_t nmi_returned(struct cpu *cpu);

/* Before and after host work, which takes NMIs of its own: the guest's NMIs wait in software
 * meanwhile, and root mode is not blocked; then what waited is made pending in hardware again. */
void nmi_hold(struct cpu *cpu);
void nmi_release(struct cpu *cpu);

/* Asks another processor, or this one, to log where it is, by a note and an NMI. One sender at a
 * time for each target. False: nothing was sent. */
bool nmi_request_backtrace(struct cpu *target);

/* Logs the counts of all sources. */
void nmi_report(const struct cpu *cpu);
