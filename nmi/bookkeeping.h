/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMI bookkeeping: what root mode does about NMIs at each exit, and around host work.
 * Thesis, section 3.2.
 */
#ifndef PMUVISOR_NMI_BOOKKEEPING_H
#define PMUVISOR_NMI_BOOKKEEPING_H

#include "../apic/apic.h"
#include "cpu.h"

/* Sets what an exit looks at, from the options and from NMI passthrough being on or off. */
void nmi_bookkeeping_setup(struct cpu *cpu);

/* There is something to do: unblock root mode, or answer what the guest took. */
void nmi_bookkeeping(struct cpu *cpu);

/* After every exit, before its handler: one test for all of it. True: nmi_bookkeeping() is to be
 * called. */
static inline bool nmi_after_exit(struct cpu *cpu)
{
    struct cpu_nmi *nmi = &cpu->nmi;

    nmi->lvtpc_at_exit = *nmi->lvtpc;
    return ((cpu->blocking & nmi->unblock_mask) | (nmi->requests & nmi->lost_mask)) != 0;
}

/* Whether the guest's PMU has raised a PMI: an overflow, and LVTPC masked by its delivery. */
bool guest_pmi_raised(void);

/* Around host work that takes NMIs of its own: the guest's NMIs wait in software meanwhile, and root
 * mode is not blocked; then what waited is made pending in hardware again. */
void nmi_hold(struct cpu *cpu);
void nmi_release(struct cpu *cpu);

/* Logs the counts of all sources. */
void nmi_report(const struct cpu *cpu);

#endif
