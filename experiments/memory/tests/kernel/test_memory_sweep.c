/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Sweeps as in sweep.c, over the two exits of a traced store, and over those of an event whose
 * stack is traced: one NMI at each root-mode instruction. It comes once, and the records are those
 * of one store, or frame. `sweep-memory:KIND:FIRST:POSITIONS`.
 */
#include <string.h>

#include "memory.h"

#include "console/log.h"
#include "hypercall.h"
#include "vmx.h"
#include "x86.h"

#define CLEAN_ROUNDS 8
#define LINGER 32 /* iterations: longer than it takes a pending NMI */
#define TOP (2 * MEMORY_PAGE)
#define FRAME_BYTES 40
#define REGION_MEMORY_SWEEP 1720 /* + kind */

static uint64_t value;

static void store(void)
{
    value++;
    __asm__ volatile("movq %0, (%1)" : : "r"(value), "r"(memory_area + 64) : "memory");
}

/* A page's last bytes: not by the shortest way. */
static void last(void)
{
    value++;
    __asm__ volatile("movq %0, (%1)" : : "r"(value), "r"(memory_area + MEMORY_PAGE - 8) : "memory");
}

static void chunk(void)
{
    void *to = memory_area + 64;
    uint64_t count = 4;

    value++;
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(value) : "memory");
}

static void breakpoint(void)
{
    __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\tint3\n1:"
                     : "=m"(fault_resume)
                     :
                     : "rax", "memory");
}

/* Each makes one exit of its reason, and leaves so many records of that flag. */
static const struct {
    const char *name;
    unsigned reason;
    void (*run)(void);
    uint8_t flags;
    const uint8_t *at;
} kinds[] = {
    {"violation", EXIT_REASON_EPT_VIOLATION, store, TRACE_WRITE, memory_area + 64},
    {"trap", EXIT_REASON_MONITOR_TRAP_FLAG, store, TRACE_WRITE, memory_area + 64},
    {"last-violation", EXIT_REASON_EPT_VIOLATION, last, TRACE_WRITE, memory_area + MEMORY_PAGE - 8},
    {"last-trap", EXIT_REASON_MONITOR_TRAP_FLAG, last, TRACE_WRITE, memory_area + MEMORY_PAGE - 8},
    {"chunk-violation", EXIT_REASON_EPT_VIOLATION, chunk, TRACE_WRITE | TRACE_CHUNK,
     memory_area + 72},
    {"chunk", EXIT_REASON_MONITOR_TRAP_FLAG, chunk, TRACE_WRITE | TRACE_CHUNK, memory_area + 72},
    {"event-violation", EXIT_REASON_EPT_VIOLATION, breakpoint, TRACE_WRITE | TRACE_EVENT,
     memory_area + TOP - FRAME_BYTES},
    {"event-trap", EXIT_REASON_MONITOR_TRAP_FLAG, breakpoint, TRACE_WRITE | TRACE_EVENT,
     memory_area + TOP - FRAME_BYTES},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static uint64_t exits_so_far(unsigned reason)
{
    return (uint64_t)hypercall(HYPERCALL_STATISTICS, reason);
}

/* Other records are those of the exception handler's own pushes, and of a REP's first iteration. */
static uint64_t matching(unsigned k, uint64_t from)
{
    bool first = kinds[k].flags & TRACE_CHUNK;
    uint64_t count = 0;

    for (; from < memory_records(); from++) {
        struct trace_memory r = memory_record(from);
        if (first && r.gla + 8 == (uint64_t)kinds[k].at && r.flags == TRACE_WRITE &&
            r.value0 == value) {
            first = false;
            continue;
        }
        bool here = r.gla == (uint64_t)kinds[k].at && r.flags == kinds[k].flags;
        count += here && (r.flags & TRACE_EVENT || r.value0 == value);
        count += !here && !(kinds[k].flags & TRACE_EVENT); /* invented */
    }
    return count + first;
}

static unsigned kind_of(const struct job *job)
{
    unsigned k = 0;

    while (k < KINDS && (strlen(job->word) != strlen(kinds[k].name) ||
                         memcmp(job->word, kinds[k].name, strlen(job->word)) != 0))
        k++;
    return k;
}

/* The last ones in a region of their own: the path without an NMI. An exception's handler has exits
 * for its pushes as well, so that stores lead to those. */
static void go_to(unsigned k, uint64_t first)
{
    for (uint64_t now = exits_so_far(kinds[k].reason); now + 1 < first;) {
        uint64_t was = now;
        bool whole = now + CLEAN_ROUNDS >= first;
        if (whole)
            region_mark(REGION_MEMORY_SWEEP + k, true);
        if (kinds[k].flags & TRACE_EVENT)
            store();
        else
            kinds[k].run();
        if (whole)
            region_mark(REGION_MEMORY_SWEEP + k, false);
        now = exits_so_far(kinds[k].reason);
        if (now == was)
            return;
    }
}

void test_sweep_memory(const struct job *job)
{
    uint64_t first = job->number[0], delivered = 0, silent = 0, wrong = 0;
    unsigned k = kind_of(job);

    if (!memory_offered(job))
        return;
    if (k == KINDS || exits_so_far(kinds[k].reason) + CLEAN_ROUNDS >= first ||
        memory_trace_physical(MEMTRACE_WRITES, memory_area, TOP) != MEMTRACE_OFF) {
        tap_result(false, job->name, "wanted memtrace=, a kind, and a first exit still to come");
        return;
    }
    bool event = kinds[k].flags & TRACE_EVENT;
    if (event)
        cpu_exception_stack(VECTOR_BP, (uint64_t)memory_area + TOP);
    go_to(k, first);
    for (uint64_t position = 1; position <= job->number[1]; position++) {
        uint64_t nmis = nmi.count, records, exits;
        settle();
        if (event)
            go_to(k, first + (position - 1) * job->number[2]);
        records = memory_records();
        exits = exits_so_far(kinds[k].reason);
        kinds[k].run();
        for (unsigned i = 0; i < LINGER; i++)
            __asm__ volatile("pause");
        exits = exits_so_far(kinds[k].reason) - exits;
        nmis = nmi.count - nmis;
        silent += nmis == 0;
        delivered += nmis == 1;
        if (nmis > 1 || (nmis == 1 && silent != 0) || matching(k, records) != 1 ||
            (!event && exits != 1)) {
            if (wrong++ < 8)
                tap_note("position %lu: %lu NMIs, %lu records right, %lu of %lu exits", position,
                         nmis, matching(k, records), memory_records() - records, exits);
        }
    }
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    if (event)
        cpu_exception_stack(VECTOR_BP, 0);
    log_printf("sweep: name=%s delivered=%lu silent=%lu wrong=%lu\n", job->name, delivered, silent,
               wrong);
    tap_result(wrong == 0 && delivered != 0 && silent != 0, job->name, NULL);
}
