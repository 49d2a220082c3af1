/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Root mode's GDT, TSS and IDT, one set per processor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpu;

#define ROOT_CS 0x08
#define ROOT_DS 0x10
#define ROOT_TR 0x18

#define ROOT_IDT_BYTES (32 * 16ULL) /* the gates of the exceptions */

struct descriptor_tables {
    uint64_t gdt_base;
    uint64_t idt_base;
    uint64_t tss_base;
};

/* Builds the tables, loads them, and loads GS with the processor's struct. NMIs go to `nmi_entry`
 * on the NMI stack. Call it with interrupts off. */
struct descriptor_tables descriptors_load(struct cpu *cpu, const char *nmi_entry);

/* Writes the gate of one vector to an IDT: an interrupt gate to `target` that stays on the current
 * stack. */
void descriptors_set_gate(void *idt, unsigned vector, const char *target);

/* Returns whether descriptors_load() has run on this processor, so that GS points to its struct
 * cpu. Before that, firmware may have set any GS base. */
bool descriptors_are_loaded(void);
