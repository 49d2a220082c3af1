/* SPDX-License-Identifier: BSD-2-Clause
 *
 * All processors: each is prepared by itself, one after the other, and enters the guest; one can
 * stop all the others.
 */
#pragma once

#include "guest/linux.h"
#include "vmx/capability.h"
#include "cpu.h"
#include "vmx/root/descriptors.h"
#include "refusal.h"

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
    volatile enum { STARTING, REFUSED, READY } state;
};

#define STACK_PAGES 4 /* of each of its stacks, and a guard page below */
/* Pages of the pool that one processor needs at most. */
#define PROCESSOR_PAGES (48 + sizeof(struct cpu) / PAGE_SIZE)

/* The processors under VMX, the bootstrap processor first. Written before the guest starts. */
extern struct guest_processors processors;
struct cpu *processor_cpu(uint32_t index);

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
/* On the processor itself, in VMX operation: nothing of the guest's translations is kept. */
void flush_guest_translations(void);

/* Starts every other processor that the MADT names and waits until it is about to enter the guest;
 * logs what did not come. `first` is ready. Single-threaded for the page pool: one at a time. */
void processors_start(const struct boot_info *bi, const struct start *first);
/* Lets them enter it. The trampoline is no longer mapped. */
void processors_go(void);

/* Stops all others for good, wherever they are. Does not come back where another one was first. */
void processors_stop(void);
/* 1 + the APIC ID of the one that did. NMI context too. */
extern volatile uint32_t processors_stopper;
static inline bool processor_stopped(const struct cpu *cpu)
{
    return processors_stopper != 0 && processors_stopper != cpu->apic_id + 1;
}
/* Where a stopped one ends: for ever, or until processors_leave(). It was in the guest at `rip`, or
 * in root mode: report_places() says so. NMI context too. */
_Noreturn void processor_end(struct cpu *cpu, uint64_t rip, bool in_root);
/* All of them, this one too, leave VMX operation and reset the machine. */
_Noreturn void processors_leave(struct cpu *cpu);

/* A page, or pages, that the start cannot do without. */
void *needed(void *page);

/* ---- setup.c, init.c: filling a processor's VMCS ---- */

/* Writes every field of the current VMCS that PMUvisor uses: controls, host state, and the guest
 * at the entry that `guest` describes, or, with NULL, as guest_init_state() leaves it. */
void vmcs_setup(struct cpu *cpu, const struct vmx_capability *capability,
                const struct vmx_controls *controls, const struct descriptor_tables *tables,
                const struct guest_entry *guest);

/* init.c: the guest's processor as an INIT leaves it. */
void guest_init_state(struct cpu *cpu);
/* Then it waits for a SIPI: from the next entry on, or right here where VMX has no such state. */
void await_sipi(struct cpu *cpu);
/* The guest is about to write this to its ICR (apic=trap); `destination` ffffffffH is all. True: an
 * INIT or SIPI for processors that wait in root mode, which have it; it is not to be sent. Logical
 * destinations are not looked at. */
bool guest_sends_ipi(uint32_t command, uint32_t destination);
