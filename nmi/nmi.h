/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMIs that reach root mode.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* nmi.asm: the IDT's target for vector 2, on the NMI stack (IST). */
extern const char nmi_entry[];

/* Ends NMI blocking in root mode by an IRET to the next instruction (thesis, Listing 1). */
void nmi_unblock(void);

/* virtual.c: NMIs of a guest that does not take them itself. */
struct cpu;
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

/* How nmi.asm goes back to what it interrupted. */
enum nmi_return {
    NMI_RETURN_UNBLOCKED, /* IRET */
    NMI_RETURN_BLOCKED,   /* without IRET: the guest's NMI is pending again in hardware */
    NMI_RETURN_COUNTING,  /* IRET, after the host's counter was started again */
};

/* What nmi.asm calls with NMIs blocked; `rip` is what was interrupted. */
enum nmi_return nmi_root(uint64_t rip);
