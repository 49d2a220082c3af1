/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMI bookkeeping: what root mode does about NMIs at each exit, and around host work.
 * Thesis, section 3.2.
 */
#pragma once

#include "cpu.h"

/* Sets what an exit looks at, from the options and from NMI passthrough being on or off. */
void nmi_bookkeeping_setup(struct cpu *cpu);

/* There is something among the requests: answers what the guest took, forgets what is over, logs.
 * Root mode was unblocked before, where the options say so. */
void nmi_bookkeeping(struct cpu *cpu);

/* After every exit, before its handler: one test for all of it. True: root mode is to be unblocked
 * (cpu->blocking), or nmi_bookkeeping() has something to do. */
static inline bool nmi_after_exit(struct cpu *cpu)
{
    const struct cpu_nmi *nmi = &cpu->nmi;

    return ((cpu->blocking & nmi->unblock_mask) | (nmi->requests & nmi->lost_mask)) != 0;
}

/* A host source has claimed an NMI: whether one of the guest's merged with it. That is so when one
 * was forwarded and has not arrived yet, or when the guest's PMU has raised a PMI: an overflow, and
 * LVTPC masked by its delivery. Never says no where there was one; it may say yes while the guest
 * has that PMI in service already, and then the guest sees one NMI more inside its handler. (Whether
 * LVTPC was masked at the exit proves nothing: the PMI may have been on its way just before.)
 * An NMI of the guest's that is no PMI leaves no trace when it merges with a host NMI. */
bool nmi_guest_merged(const struct cpu *cpu);

/* Marks an NMI as sent to the guest again, until it must have arrived. NMI context too. */
void nmi_mark_forwarded(struct cpu *cpu);

/* Marks that the guest may see one NMI of the host's as unknown. NMI context too. */
void nmi_owe(struct cpu *cpu);

/* The guest hands back an NMI that none of its handlers claims: answers what the host has waiting.
 * Gives 0 when this one cannot have been its. */
int64_t nmi_returned(struct cpu *cpu);

/* Around host work that takes NMIs of its own: the guest's NMIs wait in software meanwhile, and root
 * mode is not blocked; then what waited is made pending in hardware again. */
void nmi_hold(struct cpu *cpu);
void nmi_release(struct cpu *cpu);

/* Logs the counts of all sources. */
void nmi_report(const struct cpu *cpu);
