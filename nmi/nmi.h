/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMIs that reach root mode.
 */
#ifndef PMUVISOR_NMI_NMI_H
#define PMUVISOR_NMI_NMI_H

#include <stdbool.h>

/* nmi.asm: the IDT's target for vector 2, on the NMI stack (IST). */
extern const char nmi_entry[];

/* What nmi.asm calls with NMIs blocked. True: the guest's NMI is pending again in hardware, so
 * root mode has to stay blocked until the entry. */
bool nmi_root(void);

#endif
