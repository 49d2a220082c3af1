/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The other processors of the test kernel: each has stacks, tables and a struct processor, reached
 * by GS. They sleep in HLT, woken by an interrupt, until the first one gives them work.
 * SDM Vol. 3, "Multiple-Processor (MP) Initialization".
 */
#pragma once

#include <stddef.h>

#include "kernel.h"
#include "layout.h"

#define LINE 64 /* of a cache: nothing that two processors write shares one */

struct processor;
typedef void (*processor_work)(struct processor *self);

struct processor {
    /* smp_trap.asm has the offsets of these four, memory_storm.asm that of the fifth. */
    struct processor *self;
    uint64_t fault_resume; /* as the global one, see kernel.h */
    uint64_t resume_now;
    volatile uint64_t faults;
    uint64_t event_stacks[2]; /* where a storm's handlers of interrupts and of NMIs do their work */

    unsigned number; /* 0 is the first processor */
    uint32_t apic_id;
    bool there;               /* it answers */
    volatile uint64_t starts; /* how often it came up */
    uint64_t starts_wanted;
    uint64_t page;           /* of its start code */
    volatile uint64_t alive; /* counts while it spins */
    processor_work volatile work;
    volatile uint64_t done; /* pieces of work that it has finished */

    volatile uint64_t nmis, nested, depth;
    void (*volatile on_nmi)(struct processor *self); /* in every handler; NULL: only counted */

    /* What the storms keep, see test_smp_storm.c. */
    volatile uint64_t sent __attribute__((aligned(LINE))); /* by the one who sends to this one */
    volatile uint64_t seen __attribute__((aligned(LINE))); /* by its NMI handler */
    volatile uint64_t pmis, unknown, both, unmasked, exits, lost;
    volatile bool counting;
} __attribute__((aligned(LINE)));

_Static_assert(offsetof(struct processor, fault_resume) == 8, "smp_trap.asm");
_Static_assert(offsetof(struct processor, resume_now) == 16, "smp_trap.asm");
_Static_assert(offsetof(struct processor, faults) == 24, "smp_trap.asm");
_Static_assert(offsetof(struct processor, event_stacks) == 32, "memory_storm.asm");

extern struct processor processors[KERNEL_PROCESSORS];
extern unsigned processor_count;

/* ---- smp.c ---- */

/* Finds the others and starts each, once; the number of processors there are. */
unsigned smp_start(void);
struct processor *smp_self(void);
/* INIT, then two SIPIs to the page, as Linux sends them. False: it did not come up. */
bool smp_restart(struct processor *p, uint64_t page);
/* The same in three steps: the page, the commands to several, and whether one came up, once. */
void smp_prepare(struct processor *p, uint64_t page);
void smp_start_all(const struct processor *first, unsigned count);
/* By one INIT to all others, and so many SIPIs to all others. */
void smp_start_broadcast(uint64_t page, unsigned sipis);
bool smp_came_up(struct processor *p);
void smp_init(const struct processor *p);
void smp_sipi(const struct processor *p, uint64_t page);
/* One of the pages below 1 MiB that hold the start code; 0: there is no more memory there. */
uint64_t smp_page(unsigned n);
/* Gives it the work, and waits until it is done. */
void smp_run_on(struct processor *p, processor_work work);
/* Gives it the work that does not end. */
void smp_leave_with(struct processor *p, processor_work work);
/* Work: counts in `alive` for good; none. */
void smp_spin(struct processor *self);
void smp_nothing(struct processor *self);
/* All at once, this one too; comes back when all are done. */
void smp_run_all(processor_work work);
/* All that run the same work come this far before one goes on. */
void smp_barrier(processor_work meanwhile);
void smp_delay(uint64_t microseconds);
/* Runs the tests that the job names on each other processor, one after another. */
void smp_each(const struct job *job, void (*run)(const struct job *job));

/* ---- smp_nmi.c ---- */

/* What an NMI was for; of both, where two became one. */
#define SMP_NMI_PMI 1
#define SMP_NMI_SENT 2
/* Fixed counter 0 of this processor: set up for PMIs, but stopped; and no more. */
void smp_pmi_begin(void);
void smp_pmi_end(void);
/* It overflows after so many events of CPL 0. */
void smp_pmi_arm(struct processor *self, uint64_t period);
/* Whatever is there of the two is acknowledged, as an operating system's handler does it, and
 * counted in `pmis`, with `unmasked`, and in `seen`. Gives SMP_NMI_*, 0 where nothing was there. */
unsigned smp_nmi_acknowledge(struct processor *self);

/* ---- smp_msrs.c ---- */

/* Other processors' MSRs, as far as they are there: a value for each, drawn; what was taken, as a
 * hash. And what they are, the same; `show`: each has a line. */
uint64_t smp_fill_msrs(uint64_t random, bool show);
uint64_t smp_read_msrs(bool show);

/* test_smp_start.c: the APIC's registers as the processor found them. */
void smp_keep_apic(const struct processor *self);

/* ---- smp_start.asm ---- */

#define START_MSRS 12
/* What the start code found in the processor before it changed it. */
struct start_state {
    uint32_t eax, ecx, edx, ebx, esp, ebp, esi, edi, eflags;
    uint16_t cs, ds, es, ss, fs, gs;
    uint16_t gdt_limit;
    uint32_t gdt_base;
    uint16_t idt_limit;
    uint32_t idt_base;
    uint32_t cr0, cr2, cr3, cr4, dr0, dr1, dr2, dr3, dr6, dr7;
    uint16_t fcw, fsw;
    struct {
        uint32_t index;
        uint64_t value;
    } __attribute__((packed)) msr[START_MSRS];
} __attribute__((packed));
struct start_parameters {
    uint32_t cr3;
    uint64_t entry;
    uint64_t own; /* address of a table of struct start_own, by APIC ID */
} __attribute__((packed));
struct start_own {
    uint64_t stack, argument;
};
extern const char start_code[], start_code_end[];
extern const char start_state[], start_parameters[];
extern const char ap_stacks[];

/* ---- smp_trap.asm ---- */

extern const char smp_exception_stubs[], smp_interrupt[], smp_nmi_entry[];
extern const char smp_asleep[];
void smp_sleep(void);
bool smp_rdmsr_try(uint32_t index, uint64_t *value);

/* Regions of the ledger. */
enum smp_region {
    REGION_SMP_CPUID = 1601,
    REGION_SMP_PMI,
    REGION_SMP_NMI,
    REGION_SMP_MIXED,
};
