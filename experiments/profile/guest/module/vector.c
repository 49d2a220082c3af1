// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A sampler whose PMI is maskable: LVTPC gets a vector, whose gate is in this module's own copy of
 * the IDT. The handler does nothing but note the address. For stretches of the kernel's own, with
 * preemption off: the copy is not mapped where a program runs. SDM Vol. 3, "Local Vector Table",
 * "64-Bit Mode IDT" and "Performance Monitoring Overview".
 */
#include <linux/errno.h>
#include <linux/mm.h>
#include <linux/string.h>

#include <asm/apic.h>
#include <asm/desc.h>
#include <asm/msr.h>
#include <asm/nmi.h>
#include <asm/perf_event.h>
#include <asm/processor.h>
#include <asm/segment.h>

#include "closed.h"

#define VECTOR 0xedu /* in the IDT's copy alone, in place of HYPERV_STIMER0_VECTOR */
#define INSTRUCTIONS 0xc0ull
/* A linear congruential generator, so that each run has the same periods. */
#define MULTIPLIER 1664525u
#define ADDEND 1013904223u
#define MIXED_SHIFT 16
#define SPREAD 509u
#define SETTLE 100u

static gate_desc gates[IDT_ENTRIES] __attribute__((aligned(PAGE_SIZE)));
static struct desc_ptr before;
static struct vector_samples *samples;
static u32 least, mixed;
static u64 global_ctrl; /* as it was */
static bool stopping;

asmlinkage void vector_entry(void);
asmlinkage __visible void vector_pmi(unsigned long at);

/* Only the kernel is interrupted here, so that GS is the kernel's; what C may change is kept. The
 * address is behind the nine registers. */
asm(".pushsection .text\n"
    ".type vector_entry, @function\nvector_entry:\n"
    "cld\n"
    "push %rax\npush %rcx\npush %rdx\npush %rsi\npush %rdi\n"
    "push %r8\npush %r9\npush %r10\npush %r11\n"
    "mov 72(%rsp), %rdi\n"
    "call vector_pmi\n"
    "pop %r11\npop %r10\npop %r9\npop %r8\n"
    "pop %rdi\npop %rsi\npop %rdx\npop %rcx\npop %rax\n"
    "iretq\n"
    ".size vector_entry, . - vector_entry\n.popsection");

/* Modules cannot call apic_write() or apic_eoi() from Linux 6.6 on: both are static calls, which
 * Linux does not export. Linux 6.1 and 6.12 export `apic`. Its write() serves both APIC modes. */
static void write_apic(u32 at, u32 value) { apic->write(at, value); }

static void count(bool on) { wrmsrl(MSR_CORE_PERF_GLOBAL_CTRL, on ? 1 : 0); }

/* Until a PMI that was due when the counter stopped has come: longer than any skid. */
static void settle(void)
{
    for (unsigned int i = 0; i < SETTLE; i++)
        cpu_relax();
}

/* Counts from a value that overflows after the period, and up to SPREAD - 1 instructions later: a
 * sample that had to wait for the end of a masked stretch would otherwise set the time of the next
 * one. The write takes 32 bits, and extends the sign. */
static void again(void)
{
    mixed = mixed * MULTIPLIER + ADDEND;
    wrmsrl(MSR_IA32_PERFCTR0, (u32) - (least + (mixed >> MIXED_SHIFT) % SPREAD));
    wrmsrl(MSR_CORE_PERF_GLOBAL_OVF_CTRL, 1);
    count(true);
}

void vector_pmi(unsigned long at)
{
    count(false);
    if (samples->count < VECTOR_SAMPLES_MAX)
        samples->at[samples->count++] = at;
    else
        samples->dropped++;
    /* A PMI masks the entry, and a delivery that no EOI ends keeps the next one off. */
    write_apic(APIC_LVTPC, VECTOR);
    write_apic(APIC_EOI, APIC_EOI_ACK);
    if (!stopping)
        again();
}

int vector_start(struct vector_samples *to, u32 period)
{
    struct desc_ptr own = {.size = sizeof(gates) - 1, .address = (unsigned long)gates};

    if (!reserve_perfctr_nmi(MSR_IA32_PERFCTR0))
        return -EBUSY;
    if (!reserve_evntsel_nmi(MSR_P6_EVNTSEL0)) {
        release_perfctr_nmi(MSR_IA32_PERFCTR0);
        return -EBUSY;
    }
    samples = to;
    stopping = false;
    rdmsrl(MSR_CORE_PERF_GLOBAL_CTRL, global_ctrl);
    store_idt(&before);
    memcpy(gates, (const void *)before.address, sizeof(gates));
    pack_gate(&gates[VECTOR], GATE_INTERRUPT, (unsigned long)vector_entry, 0, 0, __KERNEL_CS);
    load_idt(&own);
    count(false);
    wrmsrl(MSR_P6_EVNTSEL0, INSTRUCTIONS | ARCH_PERFMON_EVENTSEL_OS | ARCH_PERFMON_EVENTSEL_INT |
                                ARCH_PERFMON_EVENTSEL_ENABLE);
    least = period;
    mixed = 1;
    write_apic(APIC_LVTPC, VECTOR);
    again();
    return 0;
}

void vector_stop(void)
{
    WRITE_ONCE(stopping, true);
    count(false);
    settle();
    wrmsrl(MSR_P6_EVNTSEL0, 0);
    wrmsrl(MSR_IA32_PERFCTR0, 0);
    wrmsrl(MSR_CORE_PERF_GLOBAL_OVF_CTRL, 1);
    write_apic(APIC_LVTPC, APIC_DM_NMI);
    load_idt(&before);
    wrmsrl(MSR_CORE_PERF_GLOBAL_CTRL, global_ctrl);
    release_evntsel_nmi(MSR_P6_EVNTSEL0);
    release_perfctr_nmi(MSR_IA32_PERFCTR0);
}
