/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Interrupts whose vector is the 8259's: the PIT on its input 0, by the local APIC's LINT0 in mode
 * ExtINT. Under trace=flow root mode acknowledges them as the others, and they are recorded.
 * SDM Vol. 3, "Local Vector Table"; Intel 8259A and 8254 data sheets.
 */
#include "kernel.h"

#include "host.h"
#include "hypercall.h"
#include "trace.h"
#include "x86.h"

#define PIC_1_COMMAND 0x20
#define PIC_1_DATA 0x21
#define PIC_2_COMMAND 0xa0
#define PIC_2_DATA 0xa1
#define PIC_INITIALIZE 0x11 /* four words, edges, cascaded */
#define PIC_CASCADE_1 4
#define PIC_CASCADE_2 2
#define PIC_8086 1
#define PIC_EOI 0x20
#define PIC_INPUT_0 0xfe
#define PIC_INPUT_2 0xfb
#define PIC_ALL_MASKED 0xff
#define HPET 0xfed00000
#define HPET_CONFIG 0x10
#define HPET_COUNTER 0xf0
#define HPET_TIMER_0 0x100
#define HPET_COMPARATOR_0 0x108
#define HPET_TIMER_ENABLE 0x104u /* of 32 bits */
#define HPET_TO_INPUT_10 (10u << 9)
#define HPET_TICKS 2000 /* 20 microseconds where it has 100 MHz */
#define FIRST_VECTOR 0x20
#define SECOND_VECTOR 0x28
#define PIT_CHANNEL_0 0x40
#define PIT_COMMAND 0x43
#define PIT_ONE_SHOT 0x30
#define PIT_TICKS 120 /* 100 microseconds */
#define APIC_LVT_LINT0 0x350
#define LVT_EXTINT (7u << 8)
#define ROUNDS 30
#define FIRST_OF_APIC 16
#define VECTOR_AC 17
#define WAIT 1000000

static void pic_setup(uint8_t first, uint8_t second)
{
    outb(PIC_1_COMMAND, PIC_INITIALIZE);
    outb(PIC_2_COMMAND, PIC_INITIALIZE);
    outb(PIC_1_DATA, first);
    outb(PIC_2_DATA, second);
    outb(PIC_1_DATA, PIC_CASCADE_1);
    outb(PIC_2_DATA, PIC_CASCADE_2);
    outb(PIC_1_DATA, PIC_8086);
    outb(PIC_2_DATA, PIC_8086);
    outb(PIC_2_DATA, PIC_ALL_MASKED);
    outb(PIC_1_DATA, PIC_INPUT_0);
}

/* Input 0 in the 8259's IRR, which a read of the command port gives. */
static bool requested(void)
{
    for (unsigned i = 0; i < WAIT; i++)
        if (inb(PIC_1_COMMAND) & 1)
            return true;
    return false;
}

uint64_t low_vectors;
static volatile uint64_t *count = &stray_interrupts;
extern const char low_vector[];
__asm__(".pushsection .text\nlow_vector:\n\tincq low_vectors(%rip)\n\tiretq\n.popsection");

/* In turn: it comes with IF = 0 and waits, it ends a HLT, it comes with IF = 1. */
static bool one(unsigned way)
{
    uint64_t taken = *count;
    bool came = true;

    outb(PIT_COMMAND, PIT_ONE_SHOT);
    outb(PIT_CHANNEL_0, PIT_TICKS & 0xff);
    outb(PIT_CHANNEL_0, PIT_TICKS >> 8);
    if (way == 0) {
        came = requested() && *count == taken;
        __asm__ volatile("sti\n\tnop\n\tcli" : : : "memory");
    } else if (way == 1) {
        __asm__ volatile("sti\n\thlt\n\tcli" : : : "memory");
    } else {
        __asm__ volatile("sti" : : : "memory");
        for (unsigned i = 0; i < WAIT && *count == taken; i++)
            __asm__ volatile("pause");
        __asm__ volatile("cli" : : : "memory");
    }
    outb(PIC_1_COMMAND, PIC_EOI);
    if (came && *count == taken + 1)
        return true;
    tap_note("way %u: %lu interrupts of 1", way, *count - taken);
    return false;
}

static bool recorded(uint64_t before)
{
    uint64_t found = 0;

    for (uint64_t n = before; n != trace_ring->written; n++)
        found += (trace_record(n).detail & TRACE_VECTOR) == FIRST_VECTOR;
    if (found != ROUNDS)
        tap_note("%lu records of %d interrupts", found, ROUNDS);
    return found == ROUNDS;
}

void test_extint(const struct job *job)
{
    bool traced = under_pmuvisor() && cpuid(CPUID_HV_FEATURES, 0).ecx & BIT(HYPERCALL_TRACE) &&
                  trace_begin(job) && trace_level(TRACE_ASK) == TRACE_FLOW;
    uint64_t before = traced ? trace_ring->written : 0;
    uint32_t lint0 = apic_read(APIC_LVT_LINT0);
    bool good = true;

    apic_write(APIC_SVR, apic_read(APIC_SVR) | SVR_SOFTWARE_ENABLE);
    apic_write(APIC_LVT_LINT0, LVT_EXTINT);
    pic_setup(FIRST_VECTOR, SECOND_VECTOR);
    for (unsigned i = 0; i < ROUNDS && good; i++)
        good = one(i % 3);
    outb(PIC_1_DATA, PIC_ALL_MASKED);
    apic_write(APIC_LVT_LINT0, lint0);
    tap_result(good && (!traced || recorded(before)), job->name, NULL);
}

/* The vector of an NMI, by input 2 of the second 8259, to which the HPET's timer 0 is routed. Under
 * trace=flow it comes as an NMI, and with so many of those that came meanwhile. IA-PC HPET
 * Specification. */
static bool vector_of_nmi(unsigned meanwhile)
{
    volatile uint32_t *hpet = (volatile uint32_t *)(uintptr_t)HPET;
    uint64_t taken = *count;

    pic_setup(FIRST_VECTOR, 0);
    outb(PIC_1_DATA, PIC_INPUT_2);
    outb(PIC_2_DATA, PIC_INPUT_2);
    hpet[HPET_TIMER_0 / 4] = HPET_TIMER_ENABLE | HPET_TO_INPUT_10;
    hpet[HPET_COMPARATOR_0 / 4] = hpet[HPET_COUNTER / 4] + HPET_TICKS;
    hpet[HPET_CONFIG / 4] = 1;
    __asm__ volatile("sti" : : : "memory");
    for (unsigned i = 0; i < WAIT && *count == taken; i++)
        __asm__ volatile("pause");
    __asm__ volatile("cli" : : : "memory");
    hpet[HPET_TIMER_0 / 4] = 0;
    outb(PIC_2_COMMAND, PIC_EOI);
    outb(PIC_1_COMMAND, PIC_EOI);
    outb(PIC_1_DATA, PIC_ALL_MASKED);
    outb(PIC_2_DATA, PIC_ALL_MASKED);
    uint64_t came = *count - taken;
    if (came < 1 || came > 1 + meanwhile)
        tap_note("vector 2: %lu interrupts of 1", came);
    return came >= 1 && came <= 1 + meanwhile;
}

/* `smp-wired-nmi:ROUNDS`: the same where the emulator has an NMI come meanwhile, one in each round.
 */
void test_smp_wired_nmi(const struct job *job)
{
    uint32_t lint0 = apic_read(APIC_LVT_LINT0);
    bool good = true;

    apic_write(APIC_SVR, apic_read(APIC_SVR) | SVR_SOFTWARE_ENABLE);
    apic_write(APIC_LVT_LINT0, LVT_EXTINT);
    count = &low_vectors;
    cpu_gate_smp(VECTOR_NMI, low_vector, 0);
    for (unsigned i = 0; i < job->number[0] && good; i++)
        good = vector_of_nmi(1);
    cpu_gate_smp(VECTOR_NMI, NULL, 0);
    count = &stray_interrupts;
    apic_write(APIC_LVT_LINT0, lint0);
    tap_result(good, job->name, NULL);
}

/* `smp-wired-low`: by the 8259, vectors of exceptions that no local APIC has, one of them with an
 * error code and a stack of its own in root mode; and that of an NMI. */
void test_smp_wired_low(const struct job *job)
{
    static const uint8_t vectors[] = {0, 8};
    uint32_t lint0 = apic_read(APIC_LVT_LINT0);
    bool good = true;

    apic_write(APIC_SVR, apic_read(APIC_SVR) | SVR_SOFTWARE_ENABLE);
    apic_write(APIC_LVT_LINT0, LVT_EXTINT);
    count = &low_vectors;
    for (unsigned v = 0; v < sizeof(vectors); v++) {
        cpu_gate_smp(vectors[v], low_vector, 0);
        pic_setup(vectors[v], SECOND_VECTOR);
        for (unsigned i = 0; i < 3; i++)
            good = one(i) && good;
        outb(PIC_1_DATA, PIC_ALL_MASKED);
        cpu_gate_smp(vectors[v], NULL, 0);
    }
    cpu_gate_smp(VECTOR_NMI, low_vector, 0);
    good = vector_of_nmi(0) && good;
    cpu_gate_smp(VECTOR_NMI, NULL, 0);
    count = &stray_interrupts;
    apic_write(APIC_LVT_LINT0, lint0);
    tap_result(good, job->name, NULL);
}

/* `low-vectors`: vectors that are exceptions' too, and push no error code as those. Natively the
 * guest's handler of the exception has them; a hypervisor must not take one for its own. */
void test_low_vectors(const struct job *job)
{
    bool good = true;

    apic_write(APIC_SVR, apic_read(APIC_SVR) | SVR_SOFTWARE_ENABLE);
    for (unsigned v = FIRST_OF_APIC; v < EXCEPTIONS; v++) {
        uint64_t faults = fault_count, resume;
        if (v == VECTOR_AC || v == VECTOR_CP)
            continue;
        apic_send(apic_id(), ICR_FIXED | ICR_ASSERT | v);
        __asm__ volatile("lea 1f(%%rip), %0\n\tmov %0, %1\n\tsti\n\tnop\n\tnop\n1:\tcli"
                         : "=&r"(resume), "=m"(fault_resume)
                         :
                         : "memory");
        apic_eoi();
        if (fault_count != faults + 1 || fault_vector != v) {
            tap_note("vector %u: %lu came, the last %lu", v, fault_count - faults, fault_vector);
            good = false;
        }
    }
    tap_result(good, job->name, NULL);
}
