/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The exit handlers. Each gets the processor's struct, which has the guest's registers, and leaves
 * the VMCS ready for the next entry.
 */
#pragma once

#include "vmx/cpu.h"
#include "vmx/exit/outcome.h"

typedef void exit_function(struct cpu *cpu);
/* In the files of these names: */
exit_function exit_cpuid, exit_io, exit_tick, exit_ept_violation;
exit_function exit_triple_fault;                              /* does not come back */
exit_function exit_vmcall;                                    /* hypercall.c */
exit_function exit_cr_access, exit_monitor_trap, exit_xsetbv; /* cr.c */
/* cr.c: in exit_cpuid()'s place where VMX has no monitor trap flag. */
exit_function exit_cpuid_for_trap;
exit_function exit_rdpmc, exit_rdmsr, exit_wrmsr; /* msr.c */
exit_function exit_init, exit_sipi;               /* init_sipi.c */
exit_function exit_wbinvd, exit_mwait;            /* sleep.c */
exit_function exit_unexpected; /* exit.c: a reason without a handler; ends it all */

/* Copies the table of handlers to the processor, without holes. */
void exit_setup(struct cpu *cpu);
/* The place of this exit's reason in tables. A number past them gets the last place. */
static inline uint64_t exit_reason(void)
{
    uint64_t reason = vmcs_read_32(VMCS_EXIT_REASON);

    if (__builtin_expect(reason >= EXIT_REASON_COUNT, 0)) {
        reason = EXIT_REASON_COUNT;
        __asm__("" : "+r"(reason)); /* a jump that is not taken, and no conditional move */
    }
    return reason;
}
/* entry.asm calls it after every exit, on this processor's root stack. It does the bookkeeping of
 * NMIs, counts the exit, and calls the handler. Nothing comes after that, so the compiler jumps. */
void vmx_exit(struct cpu *cpu);
/* The last part of vmx_exit(). */
static inline void count_and_handle(struct cpu *cpu)
{
    uint64_t reason = exit_reason();

    cpu->exits[reason]++;
    cpu->handlers[reason](cpu);
}
/* The part of vmx_exit() that does what nmi_after_exit() has found. */
void exit_nmi_work(struct cpu *cpu);
void vmx_exit_timed(struct cpu *cpu); /* in place of vmx_exit() with stats=cycles */
/* entry.asm calls it where VMLAUNCH or VMRESUME came back. */
_Noreturn void vmx_entry_failed(struct cpu *cpu);

/* entry.asm */
_Noreturn void vmx_launch(void);
extern const char vmx_exit_entry[], vmx_exit_entry_timed[], vmx_exit_entry_guarded[];

/* Set-up of the handlers' tables. */
void hypercall_setup(struct cpu *cpu);
bool cpuid_setup(struct cpu *cpu, const uint32_t *controls);
void msr_setup(struct cpu *cpu, const uint32_t *controls);
/* Bits of IA32_XSS that belong to what cpuid_setup() has hidden. */
uint64_t cpuid_hidden_xss(struct cpu *cpu);
void io_setup(struct cpu *cpu);
void tick_setup(struct cpu *cpu, bool available, uint64_t vmx_misc);
/* Leaves host work to the next tick. False: there is no tick. */
bool tick_host_work(struct cpu *cpu, uint64_t branches, uint64_t period);

/* ---- pt.c: the guest's Intel PT ---- */

/* Whether the guest has Intel PT: IA32_RTIT_CTL is in the VMCS. */
bool pt_given(void);
/* An access to one of the registers of Intel PT that exits: with policy=intercept, or where the
 * guest has none. False: #GP. */
bool pt_access(struct cpu *cpu, uint32_t index, uint64_t *value, bool write);
/* An EPT violation that is asynchronous to the guest's instruction, with this qualification: where
 * it is the output of a trace, that ends in its error, and what was under way goes on. False: it is
 * nobody's trace. SDM Vol. 3, "Trace-Address Pre-Translation (TAPT)" of "VM Entries". */
bool pt_output_refused(struct cpu *cpu, uint64_t qualification);

/* ---- cr.c: which bits of CR4 the guest may not have, and which are watched. SDM Vol. 3, "Control
 * Registers"; "Guest/Host Masks and Read Shadows for CR0 and CR4". ---- */

/* Bits that stay 0 for the guest, because CPUID hides the feature on every processor; with CR4.CET,
 * where CPUID hides CET, they are cpu->cr4_refused. */
#define CR4_HIDDEN (CR4_VMXE | CR4_SMXE | CR4_KL | CR4_UINTR | CR4_FRED)
/* Bits that CPUID reports back: an exit when they change spares a VMREAD at every CPUID. Between
 * such an exit and the monitor trap after it they are the guest's own. */
#define CR4_TRACKED (CR4_OSXSAVE | CR4_PKE)

/* cpuid.c: makes CPUID show the bits of the guest's CR4, and MOVs that change them exit again. */
void cpuid_follow_cr4(struct cpu *cpu);
/* The operand of the MOV to a control register that exited with this qualification. */
uint64_t cr_operand(const struct cpu *cpu, uint64_t qualification);
