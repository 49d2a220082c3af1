/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a traced write costs: the loops of write_loop.asm in marked regions, without a trace, with
 * the page traced that they write, and with another one traced. Prints TSC ticks as well, for QEMU
 * alone: the emulator's mean nothing. include/hypercall.h, HYPERCALL_MEMTRACE.
 */
#include "memory.h"

#include "x86.h"

#define DEFAULT_T 48
#define DEFAULT_U 100
#define DEFAULT_ROUNDS 10
#define WORDS (PAGE_SIZE / sizeof(uint64_t))
#define REGION_MEMORY_COST 1900 /* + the job's last number */

uint64_t write_loop(uint64_t rounds, uint64_t t, uint64_t r, volatile uint64_t *written,
                    volatile uint64_t *read);
void fill_loop(uint64_t rounds, volatile uint64_t *page, uint64_t words);

static __attribute__((aligned(PAGE_SIZE))) volatile uint64_t place[WORDS], other[WORDS];

static bool is(const struct job *job, const char *word)
{
    size_t i = 0;

    while (word[i] != '\0' && job->word[i] == word[i])
        i++;
    return word[i] == job->word[i];
}

static uint64_t or_default(uint64_t number, uint64_t otherwise)
{
    return number != 0 ? number : otherwise;
}

/* Not inlined: a compiler makes two of what is in a function with a trace and without. */
static __attribute__((noinline)) uint64_t write_marked(uint32_t region, uint64_t rounds, uint64_t t,
                                                       uint64_t r)
{
    region_mark(region, true);
    uint64_t writes = write_loop(rounds, t, r, place, place + WORDS / 2);
    region_mark(region, false);
    return writes;
}

static __attribute__((noinline)) uint64_t fill_marked(uint32_t region, uint64_t rounds,
                                                      uint64_t words)
{
    region_mark(region, true);
    fill_loop(rounds, place, words);
    region_mark(region, false);
    return rounds;
}

/* memory-cost:WORD:T:U:ROUNDS:REGION. WORD: none, writes, reads, all, elsewhere (the writes of
 * another page are traced), fill and fill-traced (T times a REP STOS of U words a round). T counts
 * from 1, to tell it from what is not given: 1 is t = 0. */
void test_memory_cost(const struct job *job)
{
    uint64_t t = or_default(job->number[0], DEFAULT_T + 1) - 1;
    uint64_t u = or_default(job->number[1], DEFAULT_U);
    uint64_t rounds = or_default(job->number[2], DEFAULT_ROUNDS);
    uint32_t region = REGION_MEMORY_COST + (uint32_t)job->number[3];
    bool fills = is(job, "fill") || is(job, "fill-traced");
    uint64_t mode = is(job, "reads") ? MEMTRACE_READS
                    : is(job, "all") ? MEMTRACE_ALL
                                     : MEMTRACE_WRITES;
    bool traced = is(job, "writes") || is(job, "elsewhere") || is(job, "fill-traced") ||
                  mode != MEMTRACE_WRITES;
    uint64_t writes, records = 0;

    if (!(traced || is(job, "none") || is(job, "fill")) || (fills ? u > WORDS : t >= u)) {
        tap_result(false, job->name, "wanted memory-cost:WORD:T:U:ROUNDS:REGION, T at most U");
        return;
    }
    if (traced) {
        if (!memory_offered(job))
            return;
        const volatile void *page = is(job, "elsewhere") ? other : place;
        int64_t error = memory_trace_physical(mode, (const void *)page, PAGE_SIZE);
        if (error < 0) {
            tap_note("HYPERCALL_MEMTRACE: %ld", error);
            tap_result(false, job->name, "memory tracing was refused");
            return;
        }
        records = memory_records();
    }
    uint64_t ticks = rdtsc();
    if (fills)
        writes = fill_marked(region, rounds * t, u);
    else
        writes = write_marked(region, rounds, t, u - t);
    ticks = rdtsc() - ticks;
    if (traced) {
        records = memory_records() - records;
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    }
    tap_note("memory-cost %s t=%lu u=%lu rounds=%lu writes=%lu records=%lu ticks=%lu", job->word, t,
             u, rounds, writes, records, ticks);
    bool right = writes == 0 || place[0] == (fills ? 1 : writes - 1);
    tap_result(right && writes == rounds * t, job->name, right ? NULL : "the last write's value");
}
