/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The start of the processors. They are prepared one after the other, and then all enter the guest.
 */
#pragma once

#include "guest/linux.h"
#include "lib/refusal.h"
#include "vmx/capability.h"
#include "vmx/cpu.h"
#include "vmx/root/descriptors.h"

/* The state of one processor's start, from firmware or the trampoline to the guest. */
struct start {
    struct cpu *cpu;
    struct vmx_capability capability;
    struct vmx_controls controls;
    struct descriptor_tables tables;
    struct guest_entry guest; /* only for the first processor; the others wait for a SIPI */
    struct refusal refusal;   /* why this processor cannot be used */
    volatile bool arrived;    /* this processor runs, with its own descriptor tables loaded */
    volatile enum start_state { STARTING, REFUSED, READY, LOST } state;
};

/* The largest number of pool pages that one processor needs, not counting its struct cpu. */
#define PROCESSOR_PAGES 48

/* Allocates everything that a processor needs from the pool. The call for the first processor comes
 * before the EPT is built. */
struct start *processor_new(const struct boot_info *bi, uint32_t apic_id, uint64_t host_cr3);
/* Runs on the processor itself. Loads its descriptor tables, and chooses its VMX controls. False:
 * the processor cannot do everything that the options need, and s->refusal says why not. */
bool processor_choose_controls(struct start *s);
/* Runs on the processor itself, with cpu->ept_root set. Prepares the exit handlers' tables. */
void processor_set_up_exits(struct start *s);
/* Runs on the processor itself. Enters VMX operation. False: VMXON failed. */
bool processor_vmxon(struct start *s);
/* Runs on the processor itself, on its root stack. Enters VMX operation and sets up the VMCS. */
void processor_enter_vmx(struct start *s, bool first);

/* Starts every other processor that the MADT names, and waits until each is ready to enter the
 * guest. Logs the processors that fail. `first` belongs to the first processor, which is ready.
 * Starts one processor at a time, because all use the same trampoline page. */
void processors_start(const struct boot_info *bi, const struct start *first);
/* Lets the processors enter the guest. The trampoline must be unmapped by then. */
void processors_enter_guest(void);

/* Writes the trampoline (apic/trampoline.asm) to a page. The trampoline calls entry(s) on the
 * processor's own stack and the hypervisor's page tables. */
void trampoline_write(uint64_t page, const struct start *s, void (*entry)(struct start *s));
/* Prepares the switch from 5-level to 4-level paging, after which the processor runs entry(s). The
 * caller then loads CR3 with *cr3, sets RBX to *page, and jumps to the returned address. Logs a
 * line. */
uint64_t leave_5_level_paging(const struct start *s, void (*entry)(struct start *s), uint64_t *page,
                              uint64_t *cr3);

/* Writes every field of the current VMCS that PMUvisor uses: controls, host state and guest state.
 * If `guest` is NULL, the guest gets the state that guest_set_init_state() sets. Otherwise the
 * guest gets the entry state that `guest` describes. */
void vmcs_setup(struct cpu *cpu, const struct vmx_capability *capability,
                const struct vmx_controls *controls, const struct descriptor_tables *tables,
                const struct guest_entry *guest);
