/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Interrupts that arrive where and when the local APIC has to deliver them: the model of it that
 * every arrival is judged by (interrupt.c), and the ways in which they are sent and awaited
 * (test_interrupts.c).
 * SDM Vol. 3, "Interrupt Acceptance for Fixed Interrupts"; "Interrupt, Task, and Processor
 * Priority"; "Masking Maskable Hardware Interrupts".
 */
#pragma once

#include "smp.h"

#define INTERRUPT_FIRST 0x1f /* 0xf0 and above are the kernel's own */
#define INTERRUPT_LAST 0xef
#define SET_MAX 8 /* vectors at once: their handlers nest on one stack */
#define DEPTH_MAX 16
#define INTERRUPT_WAIT 20000 /* iterations until one counts as lost */

/* A processor's: only it writes to this, but for `served`. */
struct interrupts {
    /* The model: what is in IRR (and its number), ISR and TPR. */
    bool pending[VECTORS];
    volatile unsigned waiting;
    uint8_t service[DEPTH_MAX];
    unsigned depth;
    uint8_t tpr;
    bool exact; /* what is pending is in the IRR already, not only on its way */

    volatile uint64_t taken, nested;
    const char *volatile first_from; /* where the first of a set came from */
    unsigned extra;                  /* so many more may handlers send */
    uint64_t random;
    uint32_t svr; /* as it was before */

    /* What was wrong. */
    uint64_t doubled; /* an arrival that was not sent */
    uint64_t order;   /* one of a higher vector was pending */
    uint64_t early;   /* its class was not above PPR */
    uint64_t late;    /* it could come, and did not */
    uint64_t lost;
    uint64_t left;   /* bits in IRR and ISR when all was over */
    uint64_t shadow; /* came from within the shadow of STI or MOV SS, or not from behind HLT */

    /* What the processor before this one is to send. */
    uint8_t wanted[SET_MAX];
    volatile unsigned wanted_count;
    volatile uint64_t asked __attribute__((aligned(LINE)));
    volatile uint64_t served __attribute__((aligned(LINE)));
} __attribute__((aligned(LINE)));

extern struct interrupts interrupts[KERNEL_PROCESSORS];

/* interrupt.c */
static inline struct interrupts *interrupts_of_this(void)
{
    return &interrupts[smp_self()->number];
}
uint64_t interrupt_random(struct interrupts *i, uint64_t below);
/* A random set of vectors that are not pending, into the model; how many. */
unsigned interrupt_choose(struct interrupts *i, uint8_t *set);
/* To that processor; an interrupt handler may come before or behind it, not within. */
void interrupt_send(uint32_t apic_id, uint32_t command);
/* With IF = 0: until the IRR has all that is pending; else that is lost. */
void interrupt_arrived(struct interrupts *i);
/* Interrupts were on: nothing that could come may be left. */
void interrupt_check_late(struct interrupts *i);
/* All is over: nothing is pending, in service, or in a register of the local APIC. */
void interrupt_check_empty(struct interrupts *i);

/* interrupt.asm */
/* SVR's vector. A local APIC that compares vectors where classes decide, as the emulator's, raises
 * some: they are counted, and no fault of a hypervisor's. */
#define INTERRUPT_SPURIOUS 0xff
extern const char interrupt_spurious[];
extern volatile uint64_t spurious_interrupts;
extern const char interrupt_stubs[]; /* from INTERRUPT_FIRST on, STUB_BYTES apart */
void open_nop(void);
void open_cpuid(void);
void open_mov_ss(void);
void open_never(void);
extern const char open_nop_here[], open_cpuid_here[], open_mov_ss_here[];
