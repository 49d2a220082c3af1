/* SPDX-License-Identifier: BSD-2-Clause
 *
 * memtrace=: string instructions over pages that are neighbours by their linear addresses alone.
 * What they leave in memory and in the registers is the same with the trace as without it, and each
 * record names the page that was written. What the guest may not read is not read for it; and a
 * store whose page walk still has a bit to set comes to its end. SDM Vol. 2,
 * "REP/REPE/REPZ/REPNE/REPNZ"; Vol. 3, "Caching Translation Information".
 */
#include <string.h>

#include "memory.h"

#include "fuzz.h"
#include "hypercall.h"
#include "smp.h"
#include "x86.h"

#define PAGE MEMORY_PAGE
#define WINDOW_ENTRY 1 /* of the PML4 */
#define WINDOW_AT (WINDOW_ENTRY * BIT(39))
#define FULL (PTE_P | PTE_RW | PTE_A | PTE_D)
#define UPPER (PTE_P | PTE_RW | PTE_A | PTE_US)
#define WORDS (PAGE / 8)
#define TABLE_PAGE 0 /* of the area: the last level */
#define TARGET WINDOW_AT
#define SOURCE (WINDOW_AT + 4 * PAGE)
#define HASH 0x100000001b3ULL
#define BEFORE 2 /* elements in the first page */
#define AFTER 4
#define VALUE 0x1020304050607080ULL
#define CPUID_7_EBX_SMAP BIT(20)

static uint64_t directory[WORDS] __attribute__((aligned(PAGE)));
static uint64_t pointers[WORDS] __attribute__((aligned(PAGE)));
static uint64_t *const table = (uint64_t *)(memory_area + TABLE_PAGE * PAGE);

/* Pages of the window, and the pages of the area that they are: never neighbours. */
static const unsigned frames[] = {2, 6, 10, 4, 8, 12};
#define FRAMES (sizeof(frames) / sizeof(frames[0]))

static uint64_t frame(unsigned page) { return fuzz_physical(memory_area + page * PAGE); }

static void fill(uint64_t flags)
{
    for (unsigned i = PAGE; i < sizeof(memory_area); i++)
        memory_area[i] = (uint8_t)(i * 7 + i / 256 * 3);
    for (unsigned i = 0; i < FRAMES; i++)
        table[i] = frame(frames[i]) | flags;
    write_cr3(read_cr3());
}

static void window(bool open)
{
    directory[0] = fuzz_physical(table) | UPPER;
    pointers[0] = fuzz_physical(directory) | UPPER;
    ((uint64_t *)(read_cr3() & BITS(51, 12)))[WINDOW_ENTRY] = open ? fuzz_physical(pointers) | UPPER
                                                                   : 0;
    write_cr3(read_cr3());
}

/* What a run leaves. */
struct left {
    uint64_t hash, rdi, rsi, rcx;
};

struct string {
    bool moves;
    unsigned size;
    uint64_t to, from, count;
};

#define STRING(name)                                                                               \
    static void name(uint64_t *to, uint64_t *from, uint64_t *count)                                \
    {                                                                                              \
        __asm__ volatile("rep " #name                                                              \
                         : "+D"(*to), "+S"(*from), "+c"(*count)                                    \
                         : "a"(VALUE)                                                              \
                         : "memory");                                                              \
    }
STRING(stosw)
STRING(stosl)
STRING(stosq)
STRING(movsw)
STRING(movsl)
STRING(movsq)

static struct left run(const struct string *s)
{
    static void (*const of_size[2][9])(uint64_t *, uint64_t *, uint64_t *) = {
        {[2] = stosw, [4] = stosl, [8] = stosq}, {[2] = movsw, [4] = movsl, [8] = movsq}};
    struct left left = {.rdi = s->to, .rsi = s->from, .rcx = s->count};

    of_size[s->moves][s->size](&left.rdi, &left.rsi, &left.rcx);
    return left;
}

static uint64_t hash(void)
{
    uint64_t value = 0;

    for (unsigned i = PAGE; i < sizeof(memory_area); i++)
        value = (value ^ memory_area[i]) * HASH;
    return value;
}

/* Each record's bytes are where its linear address leads. */
static bool places(uint64_t first)
{
    for (uint64_t n = first; n < memory_records(); n++) {
        struct trace_memory r = memory_record(n);
        uint64_t page = (r.gla - WINDOW_AT) / PAGE;

        if (r.flags & TRACE_WALK || page >= FRAMES)
            continue;
        if (r.gpa == frame(frames[page]) + r.gla % PAGE && r.gla % PAGE + r.bytes <= PAGE)
            continue;
        tap_note("record %lu: %u bytes at GLA 0x%lx are at GPA 0x%lx, wanted 0x%lx", n - first,
                 r.bytes, r.gla, r.gpa, frame(frames[page]) + r.gla % PAGE);
        return false;
    }
    return memory_records() != first;
}

static bool trace_area(uint64_t mode)
{
    return memory_trace_physical(mode, memory_area, sizeof(memory_area)) == MEMTRACE_OFF;
}

static bool same(const struct string *s, uint64_t mode)
{
    fill(FULL);
    struct left without = run(s);
    without.hash = hash();
    fill(FULL);
    if (!trace_area(mode))
        return false;
    uint64_t first = memory_records();
    struct left with = run(s);
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    with.hash = hash();
    if (memcmp(&with, &without, sizeof(with)) == 0)
        return places(first);
    tap_note("%s of %u to 0x%lx from 0x%lx: hash 0x%lx RDI 0x%lx RSI 0x%lx RCX %lu",
             s->moves ? "MOVS" : "STOS", s->size, s->to, s->from, with.hash, with.rdi, with.rsi,
             with.rcx);
    tap_note("without a trace hash 0x%lx RDI 0x%lx RSI 0x%lx RCX %lu", without.hash, without.rdi,
             without.rsi, without.rcx);
    return false;
}

/* One element lies over a page's end, in the target, the source, or both. */
static bool over_ends(uint64_t mode)
{
    for (unsigned size = 2; size <= 8; size *= 2)
        for (unsigned part = 0; part < size; part++)
            for (unsigned way = 0; way < 4; way++) {
                uint64_t odd = PAGE - BEFORE * size - part, even = PAGE - BEFORE * size;
                struct string s = {way != 0, size, TARGET + (way == 2 ? even : odd),
                                   SOURCE + (way == 1 ? even : odd), BEFORE + 1 + AFTER};
                if (!same(&s, mode))
                    return false;
            }
    return true;
}

/* From a page that is traced to one whose entry has A, and not yet D. */
static bool walks(uint64_t mode)
{
    const struct string s = {true, 8, TARGET + 64, SOURCE + 64, 3};

    for (unsigned i = 0; i < 2; i++) {
        fill(PTE_P | PTE_RW | PTE_A);
        if (i == 1 && !trace_area(mode))
            return false;
        (void)run(&s);
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
        uint64_t to = table[0] & (PTE_A | PTE_D), from = table[4] & (PTE_A | PTE_D);
        if (to != (PTE_A | PTE_D) || from != PTE_A ||
            memcmp(memory_area + frames[0] * PAGE + 64, memory_area + frames[4] * PAGE + 64, 24) !=
                0) {
            tap_note("%s a trace: A and D 0x%lx 0x%lx", i == 1 ? "with" : "without", to, from);
            return false;
        }
    }
    return true;
}

/* `memory-pages:MODE`, of MEMTRACE_*. */
void test_memory_pages(const struct job *job)
{
    if (!memory_offered(job))
        return;
    write_cr0(read_cr0() | CR0_WP);
    window(true);
    bool good = over_ends(job->number[0]);
    good &= walks(job->number[0]);
    window(false);
    tap_result(good, job->name, NULL);
}

/* ---- the source's entry is changed by another processor, again and again, to that of a page that
 * may not be read here, because it is user space's (CR4.SMAP) ---- */

#define ROUNDS 400
#define SECRET 0xee
#define SECRET_PAGE 14
#define BYTES 64

static volatile bool over;
static unsigned leaked;

static void copy(struct processor *self)
{
    uint64_t to = TARGET + 64, from = SOURCE + 64, count = BYTES;

    write_cr3(read_cr3());
    __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %3\n\trep movsb\n1:"
                     : "+D"(to), "+S"(from), "+c"(count), "=m"(self->fault_resume)
                     :
                     : "rax", "memory");
    self->fault_resume = 0;
    for (unsigned i = 0; i < BYTES; i++)
        leaked += memory_area[frames[0] * PAGE + 64 + i] == SECRET;
}

static void race(struct processor *self)
{
    for (unsigned i = 0; self->number == 1 && !over; i++) {
        table[4] = i & 1 ? frame(SECRET_PAGE) | FULL | PTE_US : frame(frames[4]) | FULL;
        for (unsigned wait = i * 7 % 61; wait > 0; wait--)
            __asm__ volatile("pause");
    }
    for (unsigned i = 0; self->number == 0 && i < ROUNDS; i++)
        copy(self);
    over |= self->number == 0;
}

/* `smp-memory-rights`, of two processors. */
void test_smp_memory_rights(const struct job *job)
{
    if (!memory_offered(job))
        return;
    if (processor_count < 2 || !(cpuid(7, 0).ebx & CPUID_7_EBX_SMAP)) {
        tap_skip(job->name, "wanted two processors, and SMAP");
        return;
    }
    bool good = true;
    window(true);
    write_cr4(read_cr4() | CR4_SMAP);
    for (unsigned i = 0; i < 2; i++) {
        fill(FULL);
        memset(memory_area + SECRET_PAGE * PAGE, SECRET, PAGE);
        memset(memory_area + frames[4] * PAGE, ~SECRET, PAGE);
        uint64_t first = memory_records();
        good = good && (i == 0 || trace_area(MEMTRACE_WRITES));
        over = false;
        leaked = 0;
        smp_run_all(race);
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
        if (leaked != 0)
            tap_note("%u bytes %s a trace", leaked, i == 1 ? "with" : "without");
        good = good && leaked == 0 && (memory_records() != first) == (i == 1);
    }
    write_cr4(read_cr4() & ~(uint64_t)CR4_SMAP);
    window(false);
    tap_result(good, job->name, NULL);
}
