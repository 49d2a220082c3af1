/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Tests of what the host does beside the guest: its NMIs, its use of the PMU, a second guest. They
 * need the hypervisor's test build (make TEST=1) and, for host NMIs, the emulator's markers.
 */
#pragma once

#include "kernel.h"

/* A hypercall with all its registers. */
struct hypercall_registers {
    uint64_t rax, rbx, rcx, rdx;
};
/* Number in RAX; gives what the hypervisor left in them. */
struct hypercall_registers hypercall_all(uint64_t rax, uint64_t rbx, uint64_t rcx, uint64_t rdx);
/* The processor runs under a hypervisor that offers hypercall `number`; if not, skips the test. */
bool hypervisor_offers(const struct job *job, unsigned number);

#define SOURCE_BACKTRACE 1 /* enum nmi_source of vmx/cpu.h */

/* What the source of backtrace requests has handled so far. */
struct handled {
    uint64_t in_root, recovered, returned;
};
struct handled host_handled(void);
/* Tells the emulator what a host NMI does to memory; false: the test was skipped. */
bool host_nmi_setup(const struct job *job);
/* The same for a sender that has sent the NMI and has not come to say so. Until host_nmi_setup() is
 * called again, which is when it does. */
void host_nmi_still_sending(void);
/* A host NMI for this processor, now, while the guest runs. */
void host_nmi_now(void);

/* VMCALL with RAX RBX RCX RDX RSI RDI RBP R8 ... R15, in and out. hypercall.asm */
#define HYPERCALL_REGISTERS 15
void hypercall_whole(uint64_t registers[HYPERCALL_REGISTERS]);

/* Regions of the ledger. */
enum host_region {
    /* + enum probe_kind: exits without an NMI, just before a sweep; one behind them is the tick. */
    REGION_HOST_CLEAN = 1300,
    REGION_HOST_CLEAN_BLOCKED = 1400,
    REGION_OTHER_GUEST = 1501,
    REGION_OTHER_GUEST_BARE,
    REGION_OTHER_GUEST_STATUS,
    REGION_LBR,
    REGION_PEBS,
    REGION_WORK,
    REGION_WORK_RECORDS,
};
