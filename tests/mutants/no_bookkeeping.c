/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hypervisor without the NMI bookkeeping of an exit, to price it: it does not even read the
 * guest's interruptibility state. SDM Vol. 3, "Guest Non-Register State". Linked instead of
 * vmx/exit/exit.c's function.
 */
#include "vmx/exit/exit.h"

void __wrap_vmx_exit(struct cpu *cpu) { dispatch_exit(cpu); }
