/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The local APIC's timer in TSC-deadline mode, in xAPIC mode. SDM Vol. 3, "TSC-Deadline
 * Mode", "Time-Stamp Counter Adjustment" and "APIC Timer".
 */
#include "emulator.h"

#define IA32_TSC_ADJUST 0x03b
#define XAPIC_LVT_TIMER ((volatile uint32_t *)0xfee00320)
#define XAPIC_TIMER_INITIAL ((volatile uint32_t *)0xfee00380)
#define XAPIC_TIMER_CURRENT ((volatile uint32_t *)0xfee00390)
#define TIMER_VECTOR 0x41u
#define ONE_SHOT 0u
#define PERIODIC (1u << 17)
#define DEADLINE (1u << 18)
#define SOON 1000u
#define STORES 100000u
/* Longer than any wait here. */
#define LATER 100000u
#define FAR UINT64_C(1000000000000)

static volatile unsigned timer_interrupts;
static volatile uint64_t timer_tsc; /* at the last interrupt */

static void on_timer(struct trap_frame *frame UNUSED)
{
    timer_tsc = rdtsc();
    timer_interrupts++;
    apic_eoi();
}

static void set_mode(uint32_t mode)
{
    *XAPIC_LVT_TIMER = mode | TIMER_VECTOR;
    timer_interrupts = 0;
}

/* Waits that many ticks with interrupts on. */
static void pass(uint64_t ticks)
{
    __asm__ volatile("sti");
    for (uint64_t start = rdtsc(); rdtsc() - start < ticks;)
        __asm__ volatile("pause");
    __asm__ volatile("cli");
}

static void arm(uint64_t deadline) { wrmsr(IA32_TSC_DEADLINE, deadline); }

static void check_fires_at(const char *what, uint64_t deadline)
{
    check_about(what, ": ");
    check_equal("IA32_TSC_DEADLINE holds it", rdmsr(IA32_TSC_DEADLINE), deadline);
    pass(SOON / 2);
    check_equal("no interrupt before its time", timer_interrupts, 0);
    pass(SOON);
    check_equal("the interrupt", timer_interrupts, 1);
    check_that("it came in time", timer_tsc - deadline < SOON / 2);
    check_equal("IA32_TSC_DEADLINE is clear", rdmsr(IA32_TSC_DEADLINE), 0);
    pass(SOON);
    check_equal("it comes once", timer_interrupts, 1);
    timer_interrupts = 0;
}

static void check_disarmed(const char *what)
{
    check_about(what, ": ");
    check_equal("IA32_TSC_DEADLINE", rdmsr(IA32_TSC_DEADLINE), 0);
    pass(2 * SOON);
    check_equal("no interrupt", timer_interrupts, 0);
}

static void check_tsc_written(void)
{
    uint64_t adjust = rdmsr(IA32_TSC_ADJUST), deadline;

    wrmsr(IA32_TIME_STAMP_COUNTER, rdtsc() + FAR);
    arm(deadline = rdtsc() + SOON);
    check_fires_at("the TSC is ahead", deadline);
    wrmsr(IA32_TIME_STAMP_COUNTER, SOON);
    arm(deadline = rdtsc() + SOON);
    check_fires_at("the TSC is behind", deadline);

    /* Write the TSC while the timer is armed. */
    arm(deadline = rdtsc() + FAR + SOON);
    wrmsr(IA32_TSC_ADJUST, rdmsr(IA32_TSC_ADJUST) + FAR);
    check_fires_at("IA32_TSC_ADJUST comes near", deadline);
    arm(deadline = rdtsc() + SOON);
    wrmsr(IA32_TSC_ADJUST, rdmsr(IA32_TSC_ADJUST) - FAR);
    pass(2 * SOON);
    check_equal("the deadline has gone away", timer_interrupts, 0);
    wrmsr(IA32_TIME_STAMP_COUNTER, deadline - SOON);
    check_fires_at("the TSC comes near", deadline);
    check_about("", "");
    arm(rdtsc() + LATER);
    wrmsr(IA32_TSC_ADJUST, rdmsr(IA32_TSC_ADJUST) + FAR);
    open_interrupts();
    check_equal("the TSC goes past it", timer_interrupts, 1);
    wrmsr(IA32_TSC_ADJUST, adjust);
}

static void check_disarm(void)
{
    set_mode(DEADLINE);
    arm(rdtsc() + SOON);
    arm(0);
    check_disarmed("a write of 0 disarms");
    arm(rdtsc() + SOON);
    set_mode(ONE_SHOT);
    check_disarmed("a change of the mode disarms");
    set_mode(DEADLINE);
    check_disarmed("so it stays");
    set_mode(ONE_SHOT);
    arm(rdtsc() + SOON);
    check_disarmed("ignored in one-shot mode");
    set_mode(DEADLINE);
    check_disarmed("and not kept for later");
    check_about("", "");
    *XAPIC_TIMER_INITIAL = SOON;
    check_equal("the initial count is ignored", *XAPIC_TIMER_CURRENT, 0);

    set_mode(ONE_SHOT);
    *XAPIC_TIMER_INITIAL = SOON;
    check_that("one-shot counts", *XAPIC_TIMER_CURRENT != 0);
    set_mode(PERIODIC);
    check_equal("one-shot to periodic disarms", *XAPIC_TIMER_CURRENT, 0);
    pass(4 * SOON);
    check_equal("no periodic interrupt", timer_interrupts, 0);
    *XAPIC_TIMER_INITIAL = SOON;
    pass(LATER);
    check_that("periodic interrupts", timer_interrupts > 2);
    set_mode(ONE_SHOT);
    pass(LATER);
    check_equal("periodic to one-shot disarms", timer_interrupts, 0);
}

/* Returns the number of instructions in a block. The timer fires once in it, after that many ticks.
 * STOS goes backwards because Bochs then stores each byte by itself. */
static uint64_t instructions_with_interrupt(uint64_t ticks)
{
    uint8_t *to = (uint8_t *)FREE_MEMORY + STORES - 1;
    uint64_t count = STORES;

    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERFEVTSEL0, EVENT_INSTRUCTIONS | EVTSEL_OS | EVTSEL_EN);
    wrmsr(IA32_A_PMC0, 0);
    timer_interrupts = 0;
    arm(rdtsc() + ticks);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
    __asm__ volatile("sti; nop; std; rep stosb; cld; cli"
                     : "+D"(to), "+c"(count)
                     : "a"(0)
                     : "memory", "cc");
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    check_equal("the interrupt", timer_interrupts, 1);
    wrmsr(IA32_PERFEVTSEL0, 0);
    return rdmsr(IA32_A_PMC0);
}

/* SDM Vol. 2, "REP/REPE/REPZ/REPNE/REPNZ": an interrupt can suspend a repeating string operation.
 */
static void check_split(void)
{
    uint64_t before;

    if ((cpuid(CPUID_LEAF_PMU, 0).eax & 0xff) != 4)
        return;
    set_mode(DEADLINE);
    check_about("a REP instruction: ", "");
    before = instructions_with_interrupt(1);
    check_equal("split, it retires once", instructions_with_interrupt(STORES / 2), before);
    check_about("", "");
    timer_interrupts = 0;
}

void emulator_timer(void)
{
    uint64_t deadline;

    handle(TIMER_VECTOR, on_timer);
    set_mode(DEADLINE);
    arm(deadline = rdtsc() + SOON);
    check_fires_at("a deadline", deadline);
    check_about("", "");
    arm(1);
    open_interrupts();
    check_equal("one in the past fires at once", timer_interrupts, 1);
    check_equal("and is clear", rdmsr(IA32_TSC_DEADLINE), 0);
    timer_interrupts = 0;
    arm(~UINT64_C(0));
    pass(2 * SOON);
    check_equal("the last one never comes", timer_interrupts, 0);
    check_equal("and is kept", rdmsr(IA32_TSC_DEADLINE), ~UINT64_C(0));
    check_tsc_written();
    check_disarm();
    check_split();

    set_mode(DEADLINE | LVT_MASKED);
    arm(rdtsc() + SOON);
    pass(2 * SOON);
    check_disarmed("masked");
    set_mode(ONE_SHOT | LVT_MASKED);
}
