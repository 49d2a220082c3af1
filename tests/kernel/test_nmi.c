/* SPDX-License-Identifier: BSD-2-Clause
 *
 * NMIs that the test kernel sends itself: one at a time, inside the handler, in the shadow of STI
 * and MOV SS, in HLT. SDM Vol. 3, "Handling Multiple NMIs", "Masking Exceptions and Interrupts When
 * Switching Stacks"; Vol. 2, "STI", "HLT".
 */
#include "kernel.h"

#define ROUNDS 100
#define HALTS 10
#define WAIT 1000          /* iterations; an NMI of one's own takes a few instructions */
#define LINGER (WAIT / 10) /* long enough for an NMI that should not come */

static uint64_t seen_inside;
static uint64_t faults_of_state;

static void wait_for(uint64_t count)
{
    for (unsigned i = 0; i < WAIT && nmi.count < count; i++)
        __asm__ volatile("pause");
}

static void report(const struct job *job, uint64_t got, uint64_t wanted)
{
    if (got != wanted)
        tap_note("%lu NMIs, wanted %lu, in %s mode", got, wanted, apic_x2() ? "x2APIC" : "xAPIC");
    if (faults_of_state != 0)
        tap_note("%lu times the state was wrong", faults_of_state);
    tap_result(got == wanted && faults_of_state == 0, job->name, NULL);
    faults_of_state = 0;
}

void test_x2apic(const struct job *job)
{
    if (!apic_enter_x2())
        tap_skip(job->name, "the processor has no x2APIC");
    else
        tap_result(apic_x2(), job->name, NULL);
}

void test_self(const struct job *job)
{
    uint64_t rounds = job->number[0] != 0 ? job->number[0] : ROUNDS, before = nmi.count;

    region_mark(REGION_NMI, true);
    for (uint64_t i = 0; i < rounds; i++) {
        apic_self_nmi();
        wait_for(before + i + 1);
        faults_of_state += nmi.count != before + i + 1;
    }
    region_mark(REGION_NMI, false);
    report(job, nmi.count - before, rounds);
}

static void send_inside(void)
{
    uint64_t now = nmi.count;

    apic_self_nmi();
    linger(LINGER);
    seen_inside += nmi.count - now;
}

/* The second NMI waits for the first one's IRET: it comes from where the first one did. */
void test_blocked(const struct job *job)
{
    uint64_t rounds = job->number[0] != 0 ? job->number[0] : ROUNDS, before = nmi.count;

    seen_inside = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        nmi.action = send_inside;
        apic_self_nmi();
        wait_for(before + 2 * i + 2);
        linger(LINGER);
        faults_of_state += nmi.count != before + 2 * i + 2;
    }
    faults_of_state += seen_inside + nmi.nested;
    report(job, nmi.count - before, 2 * rounds);
}

/* ---- an IRET that faults ends the blocking as one that does not ---- */

#define NOT_CANONICAL 0x800000000000ULL
#define STACK_WORDS 64

static uint64_t counted_before, counted_after;
static const uint64_t *iret_frame;

static void iret_that_faults(void)
{
    __asm__ volatile("lea 1f(%%rip), %%rax\n\t"
                     "mov %%rax, %0\n\t"
                     "mov %%rsp, %%rbx\n\t"
                     "mov %1, %%rsp\n\t"
                     "iretq\n"
                     "1:\tmov %%rbx, %%rsp"
                     : "=m"(fault_resume)
                     : "r"(iret_frame)
                     : "rax", "rbx", "memory", "cc");
}

/* Inside the handler of an NMI, whose stack must stay: the next one has another. */
static void fault_inside(void)
{
    static uint64_t stack[STACK_WORDS] __attribute__((aligned(16)));
    uint64_t own[2], other[2];

    cpu_event_stacks(0, own, 0, 0);
    cpu_event_stacks(0, other, (uint64_t)(stack + STACK_WORDS), own[1]);
    cpu_nmi_entry(nmi_counted_entry);
    nmi_counted = 0;
    apic_self_nmi();
    linger(LINGER);
    counted_before = nmi_counted;
    iret_that_faults();
    linger(LINGER);
    counted_after = nmi_counted;
    cpu_nmi_entry(NULL);
    cpu_event_stacks(0, other, own[0], own[1]);
}

/* Where IRET goes is no address; and, under PMUvisor, what it reads is not the guest's memory: an
 * EPT violation, which becomes #GP. */
void test_iret_faults(const struct job *job)
{
    static const uint64_t nowhere[] = {NOT_CANONICAL, CODE_SELECTOR, 2, 0, DATA_SELECTOR};
    const uint64_t *frames[] = {nowhere, (const uint64_t *)hidden_address()};
    bool good = !under_pmuvisor() || frames[1] != NULL;

    for (unsigned i = 0; i < 2 && frames[i] != NULL; i++) {
        uint64_t before = nmi.count, faults = fault_count;

        iret_frame = frames[i];
        nmi.action = fault_inside;
        apic_self_nmi();
        wait_for(before + 1);
        if (nmi.count == before + 1 && fault_count == faults + 1 && fault_vector == VECTOR_GP &&
            counted_before == 0 && counted_after == 1)
            continue;
        tap_note("IRET %u: %lu faults, vector %lu; the NMI came %lu times before it, %lu after", i,
                 fault_count - faults, fault_vector, counted_before, counted_after);
        good = false;
    }
    tap_result(good, job->name, NULL);
}

/* The instruction that sends the NMI is the one in the shadow. In x2APIC mode that is a WRMSR, in
 * xAPIC mode a MOV to memory. */
struct send {
    uint32_t msr_low, msr_high;
    volatile uint32_t *memory;
    uint32_t memory_value;
};

#define ICR_LOW_OFFSET 0x300
#define ID_OFFSET 0x020
#define ICR_NMI_ASSERT (4u << 8 | 1u << 14)

static struct send prepare(void)
{
    struct send s = {ICR_NMI_ASSERT, 0, NULL, ICR_NMI_ASSERT};

    if (apic_x2()) {
        s.msr_high = (uint32_t)rdmsr(IA32_X2APIC_APICID);
    } else {
        uint64_t base = rdmsr(IA32_APIC_BASE) & BITS(51, 12);
        apic_set_icr_high(*(volatile uint32_t *)(base + ID_OFFSET));
        s.memory = (volatile uint32_t *)(base + ICR_LOW_OFFSET);
    }
    return s;
}

#define SEND_IN_SHADOW(before, after)                                                              \
    do {                                                                                           \
        const uint16_t ss = DATA_SELECTOR;                                                         \
        struct send s = prepare();                                                                 \
        if (s.memory == NULL)                                                                      \
            __asm__ volatile(before "wrmsr\n\t" after                                              \
                             :                                                                     \
                             : "c"(X2APIC_ICR), "a"(s.msr_low), "d"(s.msr_high), [ss] "r"(ss)      \
                             : "memory");                                                          \
        else                                                                                       \
            __asm__ volatile(before "mov %0, (%1)\n\t" after                                       \
                             :                                                                     \
                             : "r"(s.memory_value), "r"(s.memory), [ss] "r"(ss)                    \
                             : "memory");                                                          \
    } while (0)

/* IF is 1 for a moment: interrupts that firmware left behind are taken and counted as strays. */
void test_sti(const struct job *job)
{
    uint64_t before = nmi.count;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        SEND_IN_SHADOW("sti\n\t", "nop\n\tcli\n\t");
        linger(LINGER);
        faults_of_state += nmi.count != before + i + 1;
    }
    report(job, nmi.count - before, ROUNDS);
}

void test_movss(const struct job *job)
{
    uint64_t before = nmi.count;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        SEND_IN_SHADOW("mov %[ss], %%ss\n\t", "nop");
        linger(LINGER);
        faults_of_state += nmi.count != before + i + 1;
    }
    report(job, nmi.count - before, ROUNDS);
}

void test_hlt(const struct job *job)
{
    uint64_t before = nmi.count, rip;

    if (!timer_nmi_setup()) {
        tap_skip(job->name, "no I/O APIC at its usual place");
        return;
    }
    for (uint64_t i = 0; i < HALTS; i++) {
        timer_nmi_start();
        __asm__ volatile("hlt\n1:\n\tlea 1b(%%rip), %0" : "=r"(rip) : : "memory");
        faults_of_state += nmi.count != before + i + 1 || nmi.rip != rip;
    }
    timer_nmi_stop();
    report(job, nmi.count - before, HALTS);
}
