/* SPDX-License-Identifier: BSD-2-Clause
 *
 * memtrace=: what comes at a traced store besides it. Events of each kind push their frames on a
 * traced stack; debug exceptions and interrupts come once, and where they come without a trace. A
 * store that faults in its second page did not happen. Page walks write to tables that are traced.
 */
#include <string.h>

#include "memory.h"

#include "fuzz.h"
#include "hypercall.h"
#include "interrupt.h"
#include "msr.h"
#include "smp.h"
#include "x86.h"

#define VECTOR_NOTED 0x61
#define VECTOR_SENT 0x81
#define NOTES 32
#define PAGE MEMORY_PAGE
#define DR6_NONE 0xffff0ff0ULL
#define DR7_WRITE_8 0x90001ULL /* DR0: writes of 8 bytes */
#define DR7_ACCESS_2 0x70001ULL
#define DR7_EXECUTE 1ULL
#define DR7_NONE 0x400ULL
#define VALUE 0x1020304050607080ULL
#define NOTHING 0x8000500000ULL /* not mapped, below the window's PML4 entry */
#define CODE_WINDOW 15          /* page of the area */
#define TYPE_NMI 2
#define TYPE_HARDWARE 3
#define TYPE_SOFTWARE 4
#define TYPE_PRIVILEGED 5
#define TYPE_BREAKPOINT 6
#define FRAME_BYTES 40
#define WORD 8
#define COUNTER_0 BIT(0)
#define INSTRUCTIONS_CPL0 0x5200c0ULL

struct note {
    uint64_t vector, rip, dr6;
};
static struct note notes[NOTES];
static unsigned noted;
static const char *stop;

extern const char memory_debug[], memory_interrupt[], memory_self[], memory_self_end[];
void memory_note(struct trap_frame *frame);

/* ---- debug exceptions and interrupts ---- */

static uint64_t dr6(void)
{
    uint64_t value;
    __asm__ volatile("mov %%dr6, %0" : "=r"(value));
    return value;
}

void memory_note(struct trap_frame *frame)
{
    if (noted < NOTES)
        notes[noted] = (struct note){frame->vector, frame->rip, dr6()};
    noted++;
    if (frame->vector == VECTOR_NOTED) {
        apic_eoi();
        return;
    }
    __asm__ volatile("mov %0, %%dr6" : : "r"(DR6_NONE));
    if (noted >= NOTES || frame->rip == (uint64_t)stop)
        frame->rflags &= ~(uint64_t)RFLAGS_TF;
    frame->rflags |= RFLAGS_RF; /* past a breakpoint of this instruction's */
}

#define WORK(name) extern const char memory_##name[], memory_##name##_end[]
WORK(step);
WORK(plain);
WORK(shadow);
WORK(step_shadow);
WORK(step_string);
WORK(string);
WORK(sti);
WORK(open);
WORK(sti_shadow);
WORK(load_ss);
WORK(step_load_ss);
WORK(sti_load_ss);
WORK(load_ss_twice);
WORK(sti_lss);
extern const char memory_plain_second[];

/* What MOV SS loads, from RDI on. */
#define SELECTOR_AT (memory_area + 64 + 32)

#define AT(name) memory_##name, memory_##name##_end
static const struct {
    const char *name, *code, *end;
    const void *breakpoint;
    uint64_t dr7;
    bool interrupt;
    unsigned least, stores; /* notes; bytes of stores by 8, roughly: records */
} steps[] = {
    {"single step", AT(step), NULL, 0, false, 3, 2},
    {"data breakpoint", AT(plain), memory_area + 64, DR7_WRITE_8, false, 2, 2},
    {"single step and data breakpoint", AT(step), memory_area + 64, DR7_WRITE_8, false, 3, 2},
    {"breakpoint of the store", AT(plain), memory_plain_second, DR7_EXECUTE, false, 1, 2},
    {"behind MOV SS, data breakpoint", AT(shadow), memory_area + 64, DR7_WRITE_8, false, 1, 1},
    {"behind MOV SS, single step", AT(step_shadow), NULL, 0, false, 2, 1},
    {"REP STOS, single step", AT(step_string), NULL, 0, false, 4, 3},
    {"REP STOS, data breakpoint", AT(string), memory_area + 72, DR7_WRITE_8, false, 1, 3},
    {"interrupt behind STI", AT(sti), NULL, 0, true, 1, 1},
    {"interrupt before the store", AT(open), NULL, 0, true, 1, 1},
    {"interrupt behind STI and MOV SS", AT(sti_shadow), NULL, 0, true, 1, 1},
    {"MOV SS, data breakpoint", AT(load_ss), SELECTOR_AT, DR7_ACCESS_2, false, 1, 0},
    {"MOV SS, single step", AT(step_load_ss), NULL, 0, false, 1, 0},
    {"MOV SS, single step and data breakpoint", AT(step_load_ss), SELECTOR_AT, DR7_ACCESS_2, false,
     1, 0},
    {"MOV SS behind STI", AT(sti_load_ss), NULL, 0, true, 1, 0},
    {"MOV SS twice", AT(load_ss_twice), NULL, 0, true, 1, 0},
    {"LSS behind STI", AT(sti_lss), NULL, 0, true, 1, 1},
};
#define STEPS (sizeof(steps) / sizeof(steps[0]))

static void run_step(unsigned n)
{
    void *at = memory_area + 64;

    noted = 0;
    stop = steps[n].end;
    memset(notes, 0, sizeof(notes));
    if (steps[n].interrupt) {
        interrupt_send(apic_id(), ICR_FIXED | VECTOR_NOTED);
        for (unsigned i = 0; i < INTERRUPT_WAIT / 10; i++)
            __asm__ volatile("pause");
    }
    __asm__ volatile("mov %0, %%dr0\n\tmov %1, %%dr6\n\tmov %2, %%dr7"
                     :
                     : "r"(steps[n].breakpoint), "r"(DR6_NONE), "r"(steps[n].dr7 | DR7_NONE));
    __asm__ volatile("call *%2"
                     : "+D"(at)
                     : "a"(VALUE), "r"(steps[n].code)
                     : "rcx", "memory", "cc");
    __asm__ volatile("mov %0, %%dr7" : : "r"(DR7_NONE));
}

static bool same_notes(unsigned n, const struct note *wanted, unsigned count)
{
    bool good = noted == count && count >= steps[n].least;

    for (unsigned i = 0; good && i < count; i++)
        good = memcmp(&notes[i], &wanted[i], sizeof(notes[i])) == 0;
    for (unsigned i = 0; !good && i < count + 2 && i < NOTES; i++)
        tap_note("%s: note %u: vector %lu at 0x%lx DR6 0x%lx, without a trace %lu at 0x%lx 0x%lx",
                 steps[n].name, i, notes[i].vector, notes[i].rip, notes[i].dr6, wanted[i].vector,
                 wanted[i].rip, wanted[i].dr6);
    return good;
}

/* Where they come without a trace, and as often. */
static bool debug(uint64_t mode)
{
    struct note wanted[NOTES];
    bool good = true;

    *(uint16_t *)SELECTOR_AT = DATA_SELECTOR;
    cpu_gate_smp(VECTOR_DB, memory_debug, 0);
    cpu_gate_smp(VECTOR_NOTED, memory_interrupt, 0);
    for (unsigned n = 0; n < STEPS; n++) {
        run_step(n);
        memcpy(wanted, notes, sizeof(wanted));
        unsigned count = noted;
        if (memory_trace_physical(mode, memory_area, PAGE) != MEMTRACE_OFF)
            return false;
        uint64_t first = memory_records();
        run_step(n);
        uint64_t records = memory_records() - first;
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
        good &= same_notes(n, wanted, count);
        if (mode == MEMTRACE_WRITES ? records != steps[n].stores : records == 0) {
            tap_note("%s: %lu records, wanted %u", steps[n].name, records, steps[n].stores);
            good = false;
        }
    }
    cpu_gate_smp(VECTOR_DB, NULL, 0);
    cpu_gate_smp(VECTOR_NOTED, NULL, 0);
    return good;
}

/* ---- frames ---- */

static uint64_t raised_at, handled; /* RIP that the frame has to have; interrupts */

#define RAISE(name, at, text)                                                                      \
    static void name(void)                                                                         \
    {                                                                                              \
        struct processor *self = smp_self();                                                       \
        __asm__ volatile("lea 2f(%%rip), %%rax\n\tmov %%rax, %0\n\tlea " at "(%%rip), %%rax\n\t"   \
                         "mov %%rax, %1\n\t1:" text "\n\t2:"                                       \
                         : "=m"(self->fault_resume), "=m"(raised_at)                               \
                         : "c"(NOTHING)                                                            \
                         : "rax", "memory", "cc");                                                 \
        self->fault_resume = 0;                                                                    \
    }
RAISE(raise_bp, "2f", "int3")
RAISE(raise_int1, "2f", ".byte 0xf1")
RAISE(raise_int, "2f", "int $0x81")
RAISE(raise_ud, "1f", "ud2")
RAISE(raise_pf, "1f", "movq $1, (%%rcx)")
RAISE(raise_gp, "1f", "mov %%ax, %%fs")

static void raise_interrupt(void)
{
    interrupt_send(apic_id(), ICR_FIXED | VECTOR_SENT);
    for (unsigned i = 0; i < INTERRUPT_WAIT / 10; i++)
        __asm__ volatile("pause");
    __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\tsti\n\tnop\n1:\tcli"
                     : "=m"(raised_at)
                     :
                     : "rax", "memory", "cc");
}

static void raise_nmi(void)
{
    uint64_t before = smp_self()->nmis;

    raised_at = 0;
    interrupt_send(apic_id(), ICR_NMI);
    while (smp_self()->nmis == before)
        __asm__ volatile("pause");
}

static void raise_pmi(void)
{
    uint64_t before = smp_self()->nmis;

    raised_at = 0;
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, COUNTER_0);
    apic_write_lvtpc(LVT_NMI);
    wrmsr(IA32_PERFEVTSEL0, INSTRUCTIONS_CPL0);
    wrmsr(IA32_PMC0, (uint32_t)-50);
    wrmsr(IA32_PERF_GLOBAL_CTRL, COUNTER_0);
    while (smp_self()->nmis == before)
        __asm__ volatile("pause");
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERFEVTSEL0, 0);
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
}

static const struct {
    const char *name;
    void (*raise)(void);
    uint32_t detail;
} events[] = {
    {"INT3", raise_bp, TYPE_BREAKPOINT << 8 | VECTOR_BP},
    {"INT1", raise_int1, TYPE_PRIVILEGED << 8 | VECTOR_DB},
    {"INT n", raise_int, TYPE_SOFTWARE << 8 | VECTOR_SENT},
    {"#UD", raise_ud, TYPE_HARDWARE << 8 | VECTOR_UD},
    {"#PF", raise_pf, BIT(11) | TYPE_HARDWARE << 8 | VECTOR_PF},
    {"#GP", raise_gp, BIT(11) | TYPE_HARDWARE << 8 | VECTOR_GP},
    {"interrupt", raise_interrupt, VECTOR_SENT},
    {"NMI", raise_nmi, TYPE_NMI << 8 | VECTOR_NMI},
    {"PMI", raise_pmi, TYPE_NMI << 8 | VECTOR_NMI},
};
#define EVENTS (sizeof(events) / sizeof(events[0]))

/* The frame is at `at`, in one record or, over the page's end, two: the upper one comes first. */
static bool frame_is(unsigned n, uint64_t first, uint64_t at)
{
    uint32_t bytes = FRAME_BYTES + (events[n].detail & BIT(11) ? WORD : 0), seen = 0;
    uint64_t upper = (at & ~(uint64_t)(PAGE - 1)) + PAGE;
    bool split = at + bytes > upper, good = true;
    uint64_t rip = events[n].detail & BIT(11) ? 1 : 0; /* which of the record's words it is */

    for (uint64_t i = first; i < memory_records(); i++) {
        struct trace_memory r = memory_record(i);
        if (!(r.flags & TRACE_EVENT)) {
            good &= r.flags == TRACE_WRITE && (seen != 0 || r.flags & TRACE_WALK);
            continue;
        }
        bool high = split && seen == 0;
        uint64_t place = high ? upper : at;
        uint32_t size = !split ? bytes
                        : high ? (uint32_t)(at + bytes - upper)
                               : (uint32_t)(upper - at);
        good &= r.flags == (TRACE_WRITE | TRACE_EVENT) && r.detail == events[n].detail &&
                r.gla == place && r.bytes == size && r.gpa % PAGE == place % PAGE;
        if (!high && raised_at != 0)
            good &= (rip != 0 ? r.value1 : r.value0) == raised_at;
        seen++;
    }
    good &= seen == (split ? 2 : 1);
    for (uint64_t i = first; !good && i < memory_records() && i < first + 6; i++) {
        struct trace_memory r = memory_record(i);
        tap_note("%s: flags 0x%x GLA 0x%lx %u bytes detail 0x%x 0x%lx 0x%lx; frame at 0x%lx, RIP "
                 "0x%lx",
                 events[n].name, (unsigned)r.flags, r.gla, r.bytes, r.detail, r.value0, r.value1,
                 at, raised_at);
    }
    return good;
}

static bool frames_at(uint64_t top)
{
    bool good = true;

    for (unsigned n = 0; n < EVENTS; n++) {
        uint64_t own[2], ignored[2], before = smp_self()->faults + smp_self()->nmis + handled;
        uint64_t bytes = FRAME_BYTES + (events[n].detail & BIT(11) ? WORD : 0);

        cpu_event_stacks(0, own, top, top);
        if (memory_trace_physical(MEMTRACE_WRITES, memory_area, 2 * PAGE) != MEMTRACE_OFF)
            return false;
        uint64_t first = memory_records();
        events[n].raise();
        uint64_t count = smp_self()->faults + smp_self()->nmis + handled - before;
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
        cpu_event_stacks(0, ignored, own[0], own[1]);
        bool counted = (events[n].detail & 0xff) >= EXCEPTIONS || count == 1;
        if (!counted)
            tap_note("%s came %lu times", events[n].name, count);
        good &= counted && frame_is(n, first, top - bytes);
    }
    return good;
}

/* ---- tables of our own: two pages, one behind the other ---- */

#define TABLE_PAGE 4 /* of the area: the last level */

static uint64_t upper[2][PAGE / WORD] __attribute__((aligned(PAGE)));

void memory_window(uint64_t first, uint64_t second)
{
    uint64_t *pml4 = (uint64_t *)(read_cr3() & BITS(51, 12));
    uint64_t *table = (uint64_t *)(memory_area + TABLE_PAGE * PAGE);

    table[0] = fuzz_physical(memory_area + WINDOW_PAGE * PAGE) | first;
    table[1] = fuzz_physical(memory_area + (WINDOW_PAGE + 1) * PAGE) | second;
    upper[1][0] = fuzz_physical(table) | WINDOW_FULL;
    upper[0][0] = fuzz_physical(upper[1]) | WINDOW_FULL;
    pml4[WINDOW_ENTRY] = fuzz_physical(upper[0]) | WINDOW_FULL;
    write_cr3(read_cr3());
}

void memory_window_close(void)
{
    ((uint64_t *)(read_cr3() & BITS(51, 12)))[WINDOW_ENTRY] = 0;
    write_cr3(read_cr3());
}

static bool record_is(const char *what, uint64_t n, uint64_t gla, const void *at, uint8_t flags,
                      uint64_t value)
{
    struct trace_memory r = memory_record(n);

    if (n < memory_records() && r.gla == gla && r.gpa == fuzz_physical(at) && r.flags == flags &&
        r.value0 == value)
        return true;
    tap_note("%s: flags 0x%x GLA 0x%lx GPA 0x%lx value 0x%lx, wanted 0x%x 0x%lx 0x%lx 0x%lx", what,
             (unsigned)r.flags, r.gla, r.gpa, r.value0, flags, gla, fuzz_physical(at), value);
    return false;
}

/* The whole store faults: nothing was written, nothing is recorded, and the trace goes on. */
static bool faults(const char *what, uint64_t second)
{
    struct processor *self = smp_self();
    uint64_t before = self->faults, at = WINDOW_AT + PAGE - 4, first = memory_records();
    uint64_t *low = (uint64_t *)(memory_area + (WINDOW_PAGE + 1) * PAGE - WORD), was = *low;

    memory_window(WINDOW_FULL | PTE_D, second);
    if (memory_trace_physical(MEMTRACE_WRITES, memory_area + WINDOW_PAGE * PAGE, 2 * PAGE) != 0)
        return false;
    __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\tmovq $-1, (%1)\n\t"
                     "movq $0, %0\n1:"
                     : "=m"(self->fault_resume)
                     : "r"(at)
                     : "rax", "memory");
    __asm__ volatile("movq %0, 64(%1)" : : "r"(VALUE), "r"(WINDOW_AT) : "memory");
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    if (self->faults == before + 1 && *low == was && memory_records() == first + 1)
        return record_is(what, first, WINDOW_AT + 64, memory_area + WINDOW_PAGE * PAGE + 64,
                         TRACE_WRITE, VALUE);
    tap_note("%s: %lu faults, %lu records, 0x%lx where 0x%lx was", what, self->faults - before,
             memory_records() - first, *low, was);
    return false;
}

/* A load sets A; a store D, and then writes. */
static bool walks(void)
{
    uint64_t first = memory_records(), value;
    const uint8_t *table = memory_area + TABLE_PAGE * PAGE,
                  *data = memory_area + WINDOW_PAGE * PAGE;
    uint64_t entry = fuzz_physical(data) | PTE_P | PTE_RW;

    memory_window(PTE_P | PTE_RW, PTE_P | PTE_RW);
    if (memory_trace_physical(MEMTRACE_WRITES, memory_area, sizeof(memory_area)) != MEMTRACE_OFF)
        return false;
    __asm__ volatile("movq 8(%1), %0" : "=r"(value) : "r"(WINDOW_AT) : "memory");
    __asm__ volatile("movq %0, 8(%1)" : : "r"(VALUE), "r"(WINDOW_AT) : "memory");
    __asm__ volatile("movq %0, 16(%1)" : : "r"(VALUE), "r"(WINDOW_AT) : "memory");
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    uint64_t count = memory_records() - first;
    if (count != 4)
        tap_note("walks: %lu records, wanted A, D and two stores", count);
    return record_is("A", first, WINDOW_AT + 8, table, TRACE_WRITE | TRACE_WALK, entry | PTE_A) &&
           record_is("D", first + 1, WINDOW_AT + 8, table, TRACE_WRITE | TRACE_WALK,
                     entry | PTE_A | PTE_D) &&
           record_is("store", first + 2, WINDOW_AT + 8, data + 8, TRACE_WRITE, VALUE) &&
           record_is("store", first + 3, WINDOW_AT + 16, data + 16, TRACE_WRITE, VALUE) &&
           count == 4;
}

/* The record has the code as it was executed, and what was written is executed. */
static bool self_modifying(void)
{
    uint8_t *to = memory_area + CODE_WINDOW * PAGE;
    uint64_t size = (uint64_t)(memory_self_end - memory_self), first = memory_records();
    bool good = true;

    for (unsigned round = 0; round < 3; round++) {
        memcpy(to, memory_self, size);
        if (memory_trace_physical(MEMTRACE_WRITES, to, PAGE) != MEMTRACE_OFF)
            return false;
        __asm__ volatile("call *%0" : : "r"(to) : "memory", "cc");
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
        struct trace_memory r = memory_record(first + round);
        good &= memory_records() == first + round + 1 && r.rip == (uint64_t)to &&
                memcmp(r.code, memory_self, size) == 0 && (r.value0 & 0xff) == 0x90 &&
                r.gla == (uint64_t)to + size - 2;
        if (!good) {
            tap_note("self-modifying code: %lu records, GLA 0x%lx value 0x%lx",
                     memory_records() - first, r.gla, r.value0);
            break;
        }
    }
    return good;
}

/* `smp-memory-events`, under memtrace=writes; on the first processor. */
void test_smp_memory_events(const struct job *job)
{
    bool good = true;

    if (!memory_offered(job))
        return;
    write_cr0(read_cr0() | CR0_WP);
    apic_write(APIC_SVR, SVR_SOFTWARE_ENABLE | INTERRUPT_SPURIOUS);
    memset(memory_area, 0, sizeof(memory_area));
    memory_window(WINDOW_FULL | PTE_D, WINDOW_FULL | PTE_D);
    good &= debug(MEMTRACE_WRITES);
    good &= frames_at((uint64_t)memory_area + PAGE - 256);
    good &= frames_at((uint64_t)memory_area + PAGE + 16);
    good &= faults("not present", 0);
    good &= faults("read-only", PTE_P | PTE_A);
    good &= walks();
    good &= self_modifying();
    memory_window_close();
    tap_result(good, job->name, NULL);
}

/* `smp-memory-shadows`, under memtrace=all: the same where reads are stepped, too. */
void test_smp_memory_shadows(const struct job *job)
{
    if (!memory_offered(job))
        return;
    apic_write(APIC_SVR, SVR_SOFTWARE_ENABLE | INTERRUPT_SPURIOUS);
    memset(memory_area, 0, sizeof(memory_area));
    bool good = debug(MEMTRACE_READS);
    tap_result(debug(MEMTRACE_ALL) && good, job->name, NULL);
}
