/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The start of the processors: each is prepared by itself, one after the other, and enters the
 * guest.
 */
#pragma once

#include "guest/linux.h"
#include "lib/refusal.h"
#include "vmx/capability.h"
#include "vmx/cpu.h"
#include "vmx/root/descriptors.h"

/* What the start of one processor carries from firmware's or the trampoline's state to the guest.
 */
struct start {
    struct cpu *cpu;
    struct vmx_capability capability;
    struct vmx_controls controls;
    struct descriptor_tables tables;
    struct guest_entry guest; /* the first processor's; the others wait for a SIPI */
    struct refusal refusal;   /* why this processor cannot be used */
    volatile bool arrived;    /* it has its own descriptor tables */
    volatile enum start_state { STARTING, REFUSED, READY, LOST } state;
};

/* Pages of the pool that one processor needs at most, beside its struct cpu. */
#define PROCESSOR_PAGES 48

/* Everything of a processor that needs memory, from the pool. The first one comes before the EPT.
 */
struct start *processor_new(const struct boot_info *bi, uint32_t apic_id, uint64_t host_cr3);
/* On the processor itself: its descriptor tables, and whether it can do all that the options need.
 * False: s->refusal says why not. */
bool processor_check(struct start *s);
/* On the processor itself, with cpu->ept_root set: the tables of the exit handlers. */
void processor_prepare(struct start *s);
/* On the processor itself: VMX operation. False: VMXON failed. */
bool processor_vmxon(struct start *s);
/* On the processor itself and its root stack: VMX operation and the VMCS. */
void processor_enter_vmx(struct start *s, bool first);

/* Starts every other processor that the MADT names and waits until it is about to enter the guest;
 * logs what did not come. `first` is ready. Single-threaded for the page pool: one at a time. */
void processors_start(const struct boot_info *bi, const struct start *first);
/* Lets them enter it. The trampoline is no longer mapped. */
void processors_go(void);

/* Writes the trampoline (apic/trampoline.asm) to a page: it leads to entry(s) on the processor's
 * own stack and the hypervisor's page tables. */
void trampoline_set(uint64_t page, const struct start *s, void (*entry)(struct start *s));
/* Where paging has 5 levels: what leads to entry(s) as well, with 4 levels. Gives the address to go
 * to on tables *cr3, with RBX = *page, and logs a line. */
uint64_t leave_5_levels(const struct start *s, void (*entry)(struct start *s), uint64_t *page,
                        uint64_t *cr3);

/* A page, or pages, that the start cannot do without. */
void *needed(void *page);

/* Writes every field of the current VMCS that PMUvisor uses: controls, host state, and the guest
 * at the entry that `guest` describes, or, with NULL, as guest_init_state() leaves it. */
void vmcs_setup(struct cpu *cpu, const struct vmx_capability *capability,
                const struct vmx_controls *controls, const struct descriptor_tables *tables,
                const struct guest_entry *guest);
