/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The processors under VMX, and their end, which any layer may ask for.
 */
#pragma once

#include "vmx/cpu.h"

/* The processors under VMX, the bootstrap processor first. Written before the guest starts. */
extern struct guest_processors processors;
/* The struct of the index-th of them. */
struct cpu *processor_cpu(uint32_t index);
/* At the start: one more that is ready. */
void processors_add(struct cpu *cpu);
/* Whether they were let into the guest. Written once, by processors_go(). */
extern volatile bool processors_running;

/* What an end needs of the layers above. Set first of all at the start: before any descriptor table
 * and any processor is there, without which neither is called. */
struct end_hooks {
    bool (*ask)(struct cpu *target);        /* sends an NMI that has it say where it is */
    void (*report)(const struct cpu *self); /* what a fault in root mode logs beside its line */
};
void end_set_hooks(struct end_hooks hooks);
/* Calls the hook `report`. */
void end_report(const struct cpu *cpu);

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
/* Resets the machine as its FADT says, else by the keyboard controller, else by a triple fault.
 * Outside VMX operation. */
_Noreturn void machine_reset(const struct acpi_facts *acpi);
