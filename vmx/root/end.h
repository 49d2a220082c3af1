/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The list of processors under VMX, and the functions that end them, which any layer may call.
 */
#pragma once

#include "vmx/cpu.h"

/* The processors under VMX, the bootstrap processor first. Not changed after the guest starts. */
extern struct guest_processors processors;
/* Returns the struct of processor `index` in that list. */
struct cpu *get_cpu_by_index(uint32_t index);
/* Adds a processor that is ready. Called at the start. */
void processors_add(struct cpu *cpu);
/* True once the processors may enter the guest. Written once, by processors_enter_guest(). */
extern volatile bool processors_running;

/* The functions of higher layers that are needed to end the processors. The start sets these hooks
 * before it does anything else. Neither hook is called before descriptor tables and processors
 * exist. */
struct end_hooks {
    bool (*ask)(struct cpu *target);        /* makes `target` report where it is, by an NMI */
    void (*report)(const struct cpu *self); /* logs details after the line of a root-mode fault */
};
void set_stop_hooks(struct end_hooks hooks);
/* Calls the hook `report`. */
void call_report_hook(const struct cpu *cpu);

/* Stops all other processors for good, wherever they are. If another processor has already begun to
 * stop the processors, ends this one instead and does not return. */
void processors_stop(void);
/* 1 + the APIC ID of the processor that stopped the others; 0: none. Also used in NMI context. */
extern volatile uint32_t processors_stopper;
static inline bool processor_is_stopped(const struct cpu *cpu)
{
    return processors_stopper != 0 && processors_stopper != cpu->apic_id + 1;
}
/* Ends this processor, which another one has stopped. The processor waits here for ever, or until
 * another processor calls processors_leave_and_reset(). `rip` is where this processor was, in the
 * guest or in root mode. report_stop_locations() logs this place. Also used in NMI context. */
_Noreturn void processor_end(struct cpu *cpu, uint64_t rip, bool in_root);
/* Makes all processors, including this one, leave VMX operation and try to reset the machine. */
_Noreturn void processors_leave_and_reset(struct cpu *cpu);
/* Resets the machine by the reset register in its FADT. If that fails, tries the keyboard
 * controller, and then a triple fault. Call it outside VMX operation. */
_Noreturn void machine_reset(const struct acpi_facts *acpi);
