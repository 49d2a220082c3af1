/* SPDX-License-Identifier: BSD-2-Clause
 *
 * HYPERCALL_MEMTRACE: what it refuses, each time with the error that says why, and that the guest
 * goes on without a trace; what it gives; and that it is not there without memtrace=.
 */
#include "memory.h"

#include <string.h>

#include "fuzz.h"
#include "host.h"
#include "hypercall.h"
#include "msr.h"
#include "smp.h"
#include "x86.h"

#define INIT_US 200
#define BEYOND (1ULL << 46) /* of any memory here */
#define ANY ~0ULL

static uint64_t value;

/* A store leaves so many records; and no exit where it leaves none. */
static bool leaves(const char *what, uint64_t wanted)
{
    uint64_t first = memory_records(), exits = (uint64_t)hypercall(HYPERCALL_STATISTICS, ~0UL);

    value++;
    __asm__ volatile("movq %0, (%1)" : : "r"(value), "r"(memory_area + 64) : "memory");
    exits = (uint64_t)hypercall(HYPERCALL_STATISTICS, ~0UL) - exits;
    /* One exit is the second hypercall's own. */
    if (memory_records() == first + wanted && (exits == 1) == (wanted == 0))
        return true;
    tap_note("%s: a store left %lu records in %lu exits, wanted %lu", what,
             memory_records() - first, exits - 1, wanted);
    return false;
}

static bool gives(const char *what, int64_t found, int64_t wanted)
{
    if (found != wanted)
        tap_note("%s: found %ld, wanted %ld", what, found, wanted);
    return found == wanted;
}

/* The page that leaves() writes to. */
static int64_t trace_first_page(void)
{
    return memory_trace_physical(MEMTRACE_WRITES, memory_area, MEMORY_PAGE);
}

static bool refuses(const char *what, int64_t found, int64_t wanted)
{
    return gives(what, found, wanted) && leaves(what, 0) &&
           gives("asked then", memory_trace(TRACE_ASK, 0, 0, 0), MEMTRACE_OFF);
}

static bool refusals(uint64_t most)
{
    const uint64_t here = fuzz_physical(memory_area);
    const struct {
        const char *what;
        bool asked;
        uint64_t mode, first, bytes;
        int64_t error;
    } calls[] = {
        {"a mode that is none", true, MEMTRACE_PAGES + 1, here, MEMORY_PAGE, HYPERCALL_E_ARGUMENT},
        {"devices, whose reads it cannot deny", most == MEMTRACE_WRITES, MEMTRACE_DEVICES, here,
         MEMORY_PAGE, HYPERCALL_E_SUPPORT},
        {"more than memtrace= allows", most < MEMTRACE_ALL, most + 1, here, MEMORY_PAGE,
         HYPERCALL_E_SUPPORT},
        {"a range that is no memory", true, most, BEYOND, MEMORY_PAGE, HYPERCALL_E_ARGUMENT},
        {"a range beyond the last address", true, most, here, ~0ULL, HYPERCALL_E_ARGUMENT},
        {"a range from the last address on", true, most, ~0ULL, 2, HYPERCALL_E_ARGUMENT},
    };
    bool good = true;

    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (calls[i].asked)
            good &= refuses(calls[i].what,
                            memory_trace(calls[i].mode, calls[i].first, calls[i].bytes, 0),
                            calls[i].error);
    return good;
}

/* Parts of pages are whole pages; another page is not traced. On again, it is the new range that
 * holds. A refusal leaves none that was on. */
static bool ranges(uint64_t mode)
{
    const uint64_t here = fuzz_physical(memory_area), linear = (uint64_t)memory_area;
    const int64_t on = (int64_t)mode;
    const struct {
        const char *what;
        uint64_t mode, first, bytes, cr3;
        int64_t result;
        uint64_t records;
    } calls[] = {
        {"one byte", mode, here + 4095, 1, 0, MEMTRACE_OFF, 1},
        {"the next page", mode, here + MEMORY_PAGE, 1, 0, on, 0},
        {"two bytes", mode, here + 4095, 2, 0, on, 1},
        {"asked", TRACE_ASK, 0, 0, 0, on, 1},
        {"refused", mode, BEYOND, 1, 0, HYPERCALL_E_ARGUMENT, 0},
        {"this CR3", mode, linear, 64 + 8, TRACE_THIS_CR3, MEMTRACE_OFF, 1},
        {"another CR3", mode, linear, 64 + 8, BEYOND, on, 0},
        {"all memory", mode, 0, 0, 0, on, ANY},
        {"off", MEMTRACE_OFF, 0, 0, 0, on, 0},
        {"off again", MEMTRACE_OFF, 0, 0, 0, MEMTRACE_OFF, 0},
    };
    bool good = true;

    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        good &= gives(calls[i].what,
                      memory_trace(calls[i].mode, calls[i].first, calls[i].bytes, calls[i].cr3),
                      calls[i].result) &&
                (calls[i].records == ANY || leaves(calls[i].what, calls[i].records));
    return good;
}

/* `memory-calls:MOST`: memtrace= allows so much. */
void test_memory_calls(const struct job *job)
{
    uint64_t most = job->number[0];

    if (!memory_offered(job))
        return;
    bool good = refusals(most);
    for (uint64_t mode = MEMTRACE_WRITES; mode <= most; mode++)
        good &= ranges(mode);
    tap_result(good, job->name, NULL);
}

/* `memory-instruction:SUBJECT`: as test_instruction(), while loads of CR3 exit. */
void test_memory_instruction(const struct job *job)
{
    if (!memory_offered(job))
        return;
    (void)gives("this CR3",
                memory_trace(MEMTRACE_WRITES, (uint64_t)memory_area, MEMORY_PAGE, TRACE_THIS_CR3),
                0);
    test_instruction(job);
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
}

/* MOV to CR3; false: it was refused. */
static bool load_cr3(uint64_t cr3)
{
    uint64_t faults = fault_count;

    __asm__ volatile("movq $1f, %0\n\tmov %1, %%cr3\n\tmovq $0, %0\n1:"
                     : "=m"(fault_resume)
                     : "r"(cr3)
                     : "memory");
    return fault_count == faults;
}

/* Loads of CR3 by this value are refused: what was traced before is traced, and nothing else. */
static bool refused_load(const char *what, uint64_t cr3, uint64_t records)
{
    bool done = load_cr3(cr3);

    if (done)
        tap_note("%s: CR3 = 0x%lx was not refused", what, cr3);
    return !done && leaves(what, records);
}

/* `memory-cr3`: the range is one CR3's: it is traced where a MOV has loaded that, and where one
 * that the processor refuses has not. */
void test_memory_cr3(const struct job *job)
{
    const uint64_t linear = (uint64_t)memory_area, own = read_cr3();
    static uint64_t other[TABLE_ENTRIES] __attribute__((aligned(TABLE_ENTRIES * 8)));

    if (!memory_offered(job))
        return;
    memcpy(other, (const void *)(own & PTE_ADDRESS), sizeof(other));
    int64_t result = memory_trace(MEMTRACE_WRITES, linear, MEMORY_PAGE, TRACE_THIS_CR3);
    bool good = gives("this CR3", result, 0) && leaves("this CR3", 1);
    good &= refused_load("another CR3 refused", fuzz_physical(other) | BIT(60), 1);
    good &= refused_load("the same CR3 refused", own | BIT(60), 1);
    good &= load_cr3(fuzz_physical(other)) && leaves("another CR3", 0);
    good &= refused_load("this CR3 refused", own | BIT(60), 0);
    good &= refused_load("no canonical CR3", own | BIT(63), 0);
    good &= load_cr3(own) && leaves("back", 1);
    good &= load_cr3(fuzz_physical(other)) && load_cr3(own) && leaves("back again", 1);
    good &= gives("off", memory_trace(MEMTRACE_OFF, 0, 0, 0), MEMTRACE_WRITES) && leaves("off", 0);
    tap_result(good, job->name, NULL);
}

/* `memory-pebs`: while PEBS is on nothing is traced, however it is switched for root mode. */
void test_memory_pebs(const struct job *job)
{
    if (!memory_offered(job))
        return;
    if (!wrmsr_try(IA32_PEBS_ENABLE, 1)) {
        tap_skip(job->name, "the processor has no IA32_PEBS_ENABLE");
        return;
    }
    bool good = refuses("PEBS on", trace_first_page(), HYPERCALL_E_STATE);
    wrmsr(IA32_PEBS_ENABLE, 0);
    good &= gives("PEBS off", trace_first_page(), 0) && leaves("PEBS off", 1);
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    tap_result(good, job->name, NULL);
}

/* `memory-pebs-begun`, under memtrace=all: PEBS begins later, and stores a record in the step of a
 * load. It is no write of an instruction's: the trace says that it is inexact. */
void test_memory_pebs_begun(const struct job *job)
{
    const uint8_t *buffer = memory_area + 2 * MEMORY_PAGE;
    uint64_t stores = 0, exact = 0;

    if (!memory_offered(job))
        return;
    int64_t result = memory_trace_physical(MEMTRACE_ALL, memory_area, sizeof(memory_area));
    bool good = gives("all", result, 0);
    uint64_t first = memory_records();
    sampling_on((uint64_t)buffer);
    __asm__ volatile(".rept 60\n\tmovl 64(%0), %%eax\n\t.endr"
                     :
                     : "r"(memory_area)
                     : "rax", "memory");
    sampling_off();
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    for (uint64_t n = first; n < memory_records(); n++)
        if (memory_record(n).gla - (uint64_t)buffer < MEMORY_PAGE) {
            stores++;
            exact += !(memory_record(n).flags & TRACE_INEXACT);
        }
    if (stores == 0 || exact != 0)
        tap_note("%lu stores of records, %lu of them taken for an instruction's", stores, exact);
    tap_result(good && stores != 0 && exact == 0, job->name, NULL);
}

#define IA32_RTIT_OUTPUT_MASK_PTRS 0x561
#define RTIT_CTL_OS BIT(2)
#define RTIT_CTL_BRANCH_EN BIT(13)
#define TRACING (RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN)
#define BUFFER_BYTES (2 * MEMORY_PAGE)
#define BRANCHES 12000 /* more than a page of packets, and less than two */

/* The guest traces itself to two pages, from there on; with a store in between, to another page. */
static bool processor_trace(const char *what, unsigned page, bool fails, uint64_t records)
{
    uint8_t *buffer = memory_area + page * MEMORY_PAGE;

    memset(buffer, 0, BUFFER_BYTES);
    wrmsr(IA32_RTIT_OUTPUT_BASE, fuzz_physical(buffer));
    wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, BUFFER_BYTES - 1);
    wrmsr(IA32_RTIT_STATUS, 0);
    uint64_t first = memory_records();
    wrmsr(IA32_RTIT_CTL, TRACING);
    for (volatile unsigned n = 0; n < BRANCHES; n++)
        if (n % 100 == 0)
            (void)cpuid(0, 0);
    __asm__ volatile("movq $1, (%0)" : : "r"(memory_area + 64) : "memory");
    wrmsr(IA32_RTIT_CTL, 0);
    uint64_t status = rdmsr(IA32_RTIT_STATUS), written = 0, found = memory_records() - first;
    for (unsigned i = 0; i < BUFFER_BYTES; i++)
        written += buffer[i] != 0;
    if (!(status & RTIT_STATUS_ERROR) == !fails && found == records &&
        (fails || written > MEMORY_PAGE))
        return true;
    tap_note("%s: status 0x%lx, %lu bytes, %lu records, wanted %s and %lu", what, status, written,
             found, fails ? "an error" : "none", records);
    return false;
}

/* Of the area: two pages that are aligned to their size. */
static unsigned buffer_page(void) { return 8 + (fuzz_physical(memory_area) / MEMORY_PAGE & 1); }

static bool traced(const char *what, unsigned page, unsigned pages, bool fails, uint64_t records)
{
    const uint8_t *first = memory_area + page * MEMORY_PAGE;
    bool good = gives(what, memory_trace_physical(MEMTRACE_WRITES, first, pages * MEMORY_PAGE),
                      0) &&
                processor_trace(what, buffer_page(), fails, records);

    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    return good;
}

/* By the processor's own log nothing is denied: the trace is whole, and its pages are in the log.
 * */
static bool logged(void)
{
    uint64_t first = memory_records(), seen = 0;
    uint64_t at = fuzz_physical(memory_area + buffer_page() * MEMORY_PAGE);
    bool good = gives("pages", memory_trace(MEMTRACE_PAGES, at, BUFFER_BYTES, 0), 0) &&
                processor_trace("pages", buffer_page(), false, 0);

    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    for (uint64_t n = first; n < memory_records(); n++)
        seen |= BIT((memory_record(n).gpa - at) / MEMORY_PAGE);
    if (seen != 3)
        tap_note("pages: %lu records, pages 0x%lx of the buffer", memory_records() - first, seen);
    return good && seen == 3;
}

/* `memory-pt`: while Intel PT is on nothing is traced. What it writes later goes on where its
 * pages are open. Where one is closed it ends in its error, and leaves no record; what
 * instructions write does. `memory-pt:5`: under memtrace=pages. */
void test_memory_pt(const struct job *job)
{
    if (!memory_offered(job))
        return;
    if (!(cpuid_extended_features().ebx & CPUID_7_EBX_PT)) {
        tap_skip(job->name, "the processor has no Intel PT");
        return;
    }
    bool good = processor_trace("without a trace", buffer_page(), false, 0);
    if (job->number[0] == MEMTRACE_PAGES) {
        tap_result(logged() && good, job->name, NULL);
        return;
    }
    wrmsr(IA32_RTIT_CTL, TRACING);
    good &= refuses("Intel PT on", trace_first_page(), HYPERCALL_E_STATE) &&
            !(rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_ERROR);
    wrmsr(IA32_RTIT_CTL, 0);
    good &= traced("an open buffer", 0, 1, false, 1);
    good &= traced("a closed buffer", 0, buffer_page() + 1, true, 1);
    good &= traced("a closed buffer alone", buffer_page(), 1, true, 0);
    good &= traced("the next page of the buffer closed", buffer_page() + 1, 1, true, 0);
    good &= processor_trace("without a trace again", buffer_page(), false, 0) &&
            leaves("without a trace", 0);
    tap_result(good, job->name, NULL);
}

#define FIXED_0_FIELD 0xfULL
#define FIXED_0_ALL_RINGS 3ULL

/* The guest begins to use the lent counter: by a write to it, too, or by that of its control alone.
 */
static bool kept(bool write)
{
    uint64_t own = 1000, found[4];
    bool good = gives("again", trace_first_page(), 0);

    if (write)
        wrmsr(IA32_FIXED_CTR0, own);
    else
        own = rdmsr(IA32_FIXED_CTR0);
    wrmsr(IA32_FIXED_CTR_CTRL, FIXED_0_ALL_RINGS);
    wrmsr(IA32_PERF_GLOBAL_CTRL, BIT(32));
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    for (unsigned i = 0; i < 2; i++)
        found[i] = rdmsr(IA32_FIXED_CTR0);
    found[2] = rdmsr(IA32_FIXED_CTR_CTRL) & FIXED_0_FIELD;
    found[3] = rdmsr(IA32_PERF_GLOBAL_CTRL);
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    good &= found[0] > own && found[0] < own + 1000 && found[1] > found[0] &&
            found[2] == FIXED_0_ALL_RINGS && found[3] == BIT(32);
    if (!good)
        tap_note("the guest's own counter, %s: %lu, then %lu, control 0x%lx 0x%lx",
                 write ? "written" : "turned on", found[0], found[1], found[2], found[3]);
    return good;
}

/* `memory-lent`: the counter is back as it was; where the guest begins to use it, it is the
 * guest's. */
void test_memory_lent(const struct job *job)
{
    const uint64_t old = 12345;

    if (!memory_offered(job))
        return;
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_FIXED_CTR0, old);
    bool good = gives("lent", trace_first_page(), 0) && leaves("lent", 1);
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    good &= rdmsr(IA32_FIXED_CTR0) == old && rdmsr(IA32_FIXED_CTR_CTRL) == 0 &&
            rdmsr(IA32_PERF_GLOBAL_CTRL) == 0;
    good &= kept(true);
    good &= kept(false);
    tap_result(good, job->name, NULL);
}

/* `memory-none`: without memtrace= there is no such call. */
void test_memory_none(const struct job *job)
{
    if (!under_pmuvisor()) {
        tap_skip(job->name, "wanted PMUvisor");
        return;
    }
    bool shown = cpuid(CPUID_HV_FEATURES, 0).ecx >> HYPERCALL_MEMTRACE & 1;
    int64_t result = memory_trace(MEMTRACE_WRITES, 0, 0, 0);
    if (shown || result != HYPERCALL_E_NUMBER)
        tap_note("CPUID %s it, result %ld", shown ? "shows" : "does not show", result);
    tap_result(!shown && result == HYPERCALL_E_NUMBER, job->name, NULL);
}

/* ---- several processors: one range for all ---- */

static volatile int64_t second_result, third_result; /* of work that may not end */

static bool offered_twice(const struct job *job)
{
    if (!memory_offered(job))
        return false;
    if (processor_count < 2)
        tap_skip(job->name, "wanted two processors");
    return processor_count >= 2;
}

/* On a processor whose ring is not read here. */
static int64_t trace_page(uint64_t page)
{
    uint64_t registers[HYPERCALL_REGISTERS] = {HYPERCALL_MEMTRACE, MEMTRACE_WRITES,
                                               fuzz_physical(memory_area) + page * MEMORY_PAGE,
                                               MEMORY_PAGE};

    hypercall_whole(registers);
    return (int64_t)registers[0];
}

static void another_range(struct processor *self)
{
    (void)self;
    second_result = trace_page(1);
}

static void same_range(struct processor *self)
{
    (void)self;
    third_result = trace_page(0);
    (void)hypercall(HYPERCALL_MEMTRACE, MEMTRACE_OFF);
}

static void traces_and_stays(struct processor *self)
{
    third_result = trace_page(1);
    for (;;)
        self->alive++;
}

/* The second processor, which traces another range than this one asks for, gets an INIT. */
static bool parked_keeps_none(void)
{
    smp_init(&processors[1]);
    smp_delay(INIT_US);
    bool good = gives("parked", trace_first_page(), 0) && leaves("parked", 1);
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    good &= smp_restart(&processors[1], smp_page(0));
    smp_run_on(&processors[1], another_range);
    good &= gives("started again", second_result, MEMTRACE_OFF);
    smp_run_on(&processors[1], same_range);
    return good && gives("off again", third_result, MEMTRACE_WRITES);
}

/* `smp-memory-init`: an INIT ends the trace of a processor, which keeps no range from the others.
 */
void test_smp_memory_init(const struct job *job)
{
    if (!offered_twice(job))
        return;
    uint64_t alive = processors[1].alive;
    smp_leave_with(&processors[1], traces_and_stays);
    while (processors[1].alive < alive + 2)
        __asm__ volatile("pause");
    bool good = gives("the second", third_result, MEMTRACE_OFF) &&
                gives("while it does", trace_first_page(), HYPERCALL_E_STATE);
    good &= parked_keeps_none();
    tap_result(good, job->name, NULL);
}

/* `smp-memory-timed`: the same where memtrace_ms= has all processors trace all memory: each has its
 * own end, and one that an INIT parks has come to it. What is asked for here is another range. */
void test_smp_memory_timed(const struct job *job)
{
    if (!offered_twice(job))
        return;
    bool good = gives("of all", trace_first_page(), HYPERCALL_E_STATE);
    good &= parked_keeps_none();
    tap_result(good, job->name, NULL);
}

/* `smp-memory-ranges`: another processor may trace the same range at once, and no other. */
void test_smp_memory_ranges(const struct job *job)
{
    bool good;

    if (!offered_twice(job))
        return;
    good = gives("the first", trace_first_page(), 0);
    smp_run_on(&processors[1], another_range);
    smp_run_on(&processors[1], same_range);
    good &= gives("another range", second_result, HYPERCALL_E_STATE) &&
            gives("the same", third_result, MEMTRACE_OFF) && leaves("the first", 1);
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    smp_run_on(&processors[1], another_range);
    good &= gives("another range, then", second_result, MEMTRACE_OFF);
    smp_run_on(&processors[1], same_range);
    tap_result(good, job->name, NULL);
}
