/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The exit handlers: each gets the processor's struct with the guest's registers in it, and leaves
 * the VMCS ready for the next entry.
 */
#pragma once

#include "cpu.h"
#include "vmx/inject.h"

typedef void exit_function(struct cpu *cpu);
exit_function exit_cpuid, exit_io, exit_tick;      /* in the files of these names */
exit_function exit_vmcall, exit_ept_violation;     /* hypercall.c, memory.c */
exit_function exit_cr_access, exit_xsetbv;         /* cr.c */
exit_function exit_rdpmc, exit_rdmsr, exit_wrmsr;  /* msr.c */
exit_function exit_init, exit_sipi;                /* init.c */
exit_function exit_wbinvd, exit_mwait;             /* sleep.c */
/* memory.c: #GP, or what becomes of it where an event was being delivered. Gives its name. */
const char *inject_refusal(struct cpu *cpu);
exit_function exit_triple_fault;                   /* exit.c; does not come back */

/* Copies the table of handlers to the processor, without holes. */
void exit_setup(struct cpu *cpu);
/* Called from entry.asm after every exit, on this processor's root stack: bookkeeping and count;
 * gives the handler, which entry.asm calls. Not one function, so that neither has registers to
 * keep. */
exit_handler vmx_exit(struct cpu *cpu);
void vmx_exit_timed(struct cpu *cpu); /* all of it, with stats=cycles */
/* Called from entry.asm where VMLAUNCH or VMRESUME came back. */
_Noreturn void vmx_entry_failed(struct cpu *cpu);

/* entry.asm */
_Noreturn void vmx_launch(void);
extern const char vmx_exit_entry[], vmx_exit_entry_timed[], vmx_exit_entry_guarded[];

/* mitigations.c. What a processor with these capabilities needs and offers: MITIGATION bits of
 * hypercall.h. `leaf_7` is its CPUID.(7, 0). Pure. */
struct cpuid_result;
uint32_t mitigations_needed(struct cpuid_result leaf_7, uint64_t capabilities);
/* This processor's, as the options say; before its VMCS is set up. */
void mitigations_setup(struct cpu *cpu);
void mitigations_print(const struct cpu *cpu);

/* Whether a refusal may be logged: a line costs a millisecond and more in root mode, and a guest
 * may try in a loop. */
#define REFUSALS_LOGGED 16
static inline bool worth_a_line(struct cpu *cpu) { return cpu->refused++ < REFUSALS_LOGGED; }

/* Bit n is set when hypercall number n is offered. */
uint32_t hypercalls_offered(void);

/* Set-up of the handlers' tables. */
bool cpuid_setup(struct cpu *cpu, const uint32_t *controls);
void msr_setup(struct cpu *cpu, const uint32_t *controls);
/* Bits of IA32_XSS that belong to what cpuid_setup() hides with these controls. */
uint64_t cpuid_hidden_xss(const uint32_t *controls);
void io_setup(struct cpu *cpu);
void tick_setup(struct cpu *cpu, bool available, uint64_t vmx_misc);
/* Leaves host work to the next tick. False: there is no tick. */
bool tick_host_work(struct cpu *cpu, uint64_t branches, uint64_t period);

/* ---- cr.c: which bits of CR4 the guest may not have, and which are watched. SDM Vol. 3, "Control
 * Registers"; "Guest/Host Masks and Read Shadows for CR0 and CR4". ---- */

/* Bits that stay 0 for the guest, because CPUID hides the feature on every processor; with CR4.CET,
 * where CPUID hides CET, they are cpu->cr4_refused. */
#define CR4_HIDDEN (CR4_VMXE | CR4_SMXE | CR4_KL | CR4_UINTR | CR4_FRED)
/* Bits that CPUID reports back: an exit when they change spares a VMREAD at every CPUID. */
#define CR4_TRACKED (CR4_OSXSAVE | CR4_PKE)

/* cpuid.c: takes over cpu->guest_cr4_tracked. */
void cpuid_follow_cr4(struct cpu *cpu);

/* ---- msr.c: a 1 makes the access exit. SDM Vol. 3, "MSR-Bitmap Address". ---- */

/* Makes reads and/or writes of first..last (both inside) exit. Indices that the bitmap cannot name
 * are passed over: they exit in any case. `bitmap` is one page. */
void msr_bitmap_set(void *bitmap, uint32_t first, uint32_t last, bool read, bool write);

/* ---- report.c: what the guest's run cost in exits, and the machine's end as the guest asked ----
 */

/* Logs the table of exits by reason, with cycles where stats=cycles counted them. */
void report_exits(const struct cpu *cpu);

/* Logs the guest's registers as they were at the exit. */
void report_guest(const struct cpu *cpu);

/* The name of a basic exit reason. */
const char *exit_reason_name(uint32_t reason);

/* The same for every processor. */
void report_processors(void);

/* Logs where each processor but this one was when processors_stop() stopped it. */
void report_places(const struct cpu *self);

/* Stops the other processors, reports, and resets the machine. */
_Noreturn void machine_end(struct cpu *cpu);

/* Resets the machine as its FADT says, else by the keyboard controller, else by a triple fault.
 * Outside VMX operation. */
_Noreturn void machine_reset(const struct acpi_facts *acpi);
