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

#define ROOT_IDT_BYTES (32 * 16ULL) /* of the exceptions' gates */

struct descriptor_tables {
    uint64_t gdt_base;
    uint64_t idt_base;
    uint64_t tss_base;
};

/* Builds the tables and loads all of them, and GS with the processor's struct. NMIs go to
 * `nmi_entry`, on the NMI stack. Interrupts are off. False: the page pool is used up. */
bool descriptors_load(struct cpu *cpu, const char *nmi_entry, struct descriptor_tables *t);

/* Writes the gate of a vector to an IDT: an interrupt gate to `target`, on the stack that there is.
 */
void descriptors_set_gate(void *idt, unsigned vector, const char *target);

/* Whether that was done on this processor, so that GS leads to its struct. Firmware's tables before
 * that may have any GS base. */
bool descriptors_loaded(void);
