/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The exit handlers. Each takes the processor's struct cpu, which holds the guest's registers, and
 * leaves the VMCS ready for the next entry.
 */
#pragma once

#include "vmx/cpu.h"
#include "vmx/exit/outcome.h"

typedef void exit_function(struct cpu *cpu);
/* Each of these is in the file of the same name: exit_cpuid() is in cpuid.c. */
exit_function exit_cpuid, exit_io, exit_tick, exit_ept_violation;
exit_function exit_triple_fault;                              /* does not return */
exit_function exit_vmcall;                                    /* hypercall.c */
exit_function exit_cr_access, exit_monitor_trap, exit_xsetbv; /* cr.c */
exit_function exit_rdpmc, exit_rdmsr, exit_wrmsr;             /* msr.c */
exit_function exit_init, exit_sipi;                           /* init_sipi.c */
exit_function exit_wbinvd, exit_mwait;                        /* sleep.c */
/* exit.c: a reason without a handler is fatal, unless the entry failed because of a state that root
 * mode can correct. */
exit_function exit_unexpected;

/* Copies the table of handlers to struct cpu and fills its gaps with exit_unexpected(). */
void exit_setup(struct cpu *cpu);
/* entry.asm calls vmx_exit() after every exit, on this processor's root stack. vmx_exit() does the
 * NMI bookkeeping, counts the exit, and calls the handler. The call of the handler comes last, so
 * the compiler makes this call a jump. */
void vmx_exit(struct cpu *cpu);
/* `index` is an exit reason, or the last index of the tables. */
static inline void call_exit_handler(struct cpu *cpu, uint64_t index)
{
    cpu->exits[index]++;
    cpu->handlers[index](cpu);
}
/* The last part of vmx_exit(). The last index is for all reasons past the tables' end. */
static inline void dispatch_exit(struct cpu *cpu)
{
    uint64_t reason = vmcs_read_raw(VMCS_EXIT_REASON); /* an index needs 64 bits */

    if (reason < EXIT_REASON_COUNT)
        call_exit_handler(cpu, reason);
    else
        call_exit_handler(cpu, EXIT_REASON_COUNT);
}
/* The part of vmx_exit() that runs only if nmi_has_exit_work() has found NMI work. */
void handle_nmi_work(struct cpu *cpu);
void vmx_exit_timed(struct cpu *cpu); /* with stats=cycles: called instead of vmx_exit() */
/* entry.asm calls vmx_report_entry_failure() after a VMLAUNCH or VMRESUME that failed. */
_Noreturn void vmx_report_entry_failure(struct cpu *cpu);

/* entry.asm */
_Noreturn void vmx_launch(void);
extern const char vmx_exit_entry[], vmx_exit_entry_timed[], vmx_exit_entry_guarded[];

/* init_sipi.c: puts the guest's processor into its state after an INIT. */
void guest_set_init_state(struct cpu *cpu);

/* Set up the handlers' tables. */
void hypercall_setup(struct cpu *cpu);
void cpuid_setup(struct cpu *cpu, const uint32_t *controls);
void msr_setup(struct cpu *cpu, const uint32_t *controls);
/* Returns the IA32_XSS bits of the state that cpuid_setup() has hidden. */
uint64_t cpuid_hidden_xss(struct cpu *cpu);
void io_setup(struct cpu *cpu);
void tick_setup(struct cpu *cpu, bool available, uint64_t vmx_misc);
/* Schedules host work for the next tick. Returns false if there is no tick. */
bool tick_schedule_host_work(struct cpu *cpu, uint64_t branches, uint64_t period);

/* ---- pt.c: the guest's Intel PT ---- */

/* Returns whether the guest has Intel PT, so that IA32_RTIT_CTL is in the VMCS. */
bool pt_is_exposed(void);
/* Performs the guest's access to an Intel PT register. These accesses exit with policy=intercept,
 * or if the guest has no Intel PT. Returns false if the guest gets #GP. */
bool pt_access_register(struct cpu *cpu, uint32_t index, uint64_t *value, bool write);
/* Handles an EPT violation that is asynchronous to the guest's instruction. `qualification` is the
 * exit qualification. If the output of a trace caused the violation, ends the trace with its error
 * set, lets the guest continue, and returns true. Otherwise returns false. SDM Vol. 3,
 * "Trace-Address Pre-Translation (TAPT)" of "VM Entries". */
bool pt_report_output_error(struct cpu *cpu, uint64_t qualification);

/* ---- cr.c: the CR4 bits that the guest may not set, and the CR4 bits whose changes exit. SDM Vol.
 * 3, "Control Registers"; "Guest/Host Masks and Read Shadows for CR0 and CR4". ---- */

/* Bits that stay 0 for the guest, because CPUID hides their features on every processor.
 * cpu->cr.cr4_refused has these bits, the bits that VMX fixes to 1, and CR4.CET if CPUID hides
 * CET. */
#define CR4_HIDDEN (CR4_VMXE | CR4_SMXE | CR4_KL | CR4_UINTR | CR4_FRED)
/* The CR4 bits that CPUID reports. A MOV that changes them exits, so that a CPUID exit need not
 * read CR4 from the VMCS. Between the exit of such a MOV and the monitor trap that follows, the
 * guest owns the bits. */
#define CR4_TRACKED (CR4_OSXSAVE | CR4_PKE)

/* cpuid.c: makes CPUID show the values that these bits have in the guest's CR4, and makes MOVs that
 * change the bits exit again. */
void cpuid_update_for_cr4(struct cpu *cpu);
/* Returns the operand of the MOV to a control register that exited with this qualification. */
uint64_t cr_operand(const struct cpu *cpu, uint64_t qualification);
