/* SPDX-License-Identifier: BSD-2-Clause
 *
 * INIT and SIPI in any order to a processor that does something of its own: runs, halts, loops at
 * the first instruction that a SIPI gives it, waits, or does what an experiment begins there. At
 * the end it has to start, as natively. `smp-sequence:SEED:FIRST:COUNT` prints a hash of each. SDM
 * Vol. 3, "MP Initialization Protocol Algorithm for MP Systems", "Local APIC State After It
 * Receives an INIT Reset".
 */
#include "smp.h"

#include <string.h>

#include "console/log.h"
#include "sequence.h"

#define ACTIONS_MAX 6
#define WAIT 200             /* microseconds for what a processor is to do by itself */
#define ALIVE_WAIT 10000000u /* iterations */
#define CODE_PAGE 1          /* smp_page(), beside the one of the start code */

static void halt(struct processor *self)
{
    (void)self;
    for (;;)
        __asm__ volatile("cli\n\thlt");
}

static void lasting(struct processor *self)
{
    FOR_EACH_AROUND(a)
    a->begin_lasting();
    smp_spin(self);
}

/* Real-mode code at the place where a SIPI begins: a loop at its first instruction or after it,
 * HLT, CPUID, a loop with interrupts on. */
static void place_code(uint64_t random)
{
    static const uint8_t codes[][6] = {
        {0xeb, 0xfe},       {0x90, 0xeb, 0xfd},       {0xfa, 0xf4, 0xeb, 0xfd},
        {0xfb, 0xeb, 0xfd}, {0x0f, 0xa2, 0xeb, 0xfc}, {0xf3, 0x90, 0xeb, 0xfc},
    };

    memcpy((void *)smp_page(CODE_PAGE), codes[random % LENGTH_OF(codes)], sizeof(codes[0]));
}

/* As an operating system waits after an INIT: a SIPI has to find the processor waiting. */
static void stop(const struct processor *p)
{
    smp_init(p);
    smp_delay(WAIT);
}

static void start_at_code(const struct processor *p, uint64_t random)
{
    stop(p); /* which may be in that code */
    place_code(random);
    smp_sipi(p, smp_page(CODE_PAGE));
    smp_delay(WAIT);
}

static uint64_t act(struct processor *p, uint64_t action, uint64_t random)
{
    switch (action) {
    case 0:
        start_at_code(p, random);
        return 0;
    case 1:
        stop(p);
        return 0;
    case 2:
        smp_sipi(p, smp_page(CODE_PAGE)); /* where it begins, if it waits for one */
        smp_delay(WAIT);
        return 0;
    case 3:
        apic_send(p->apic_id, ICR_NMI | ICR_ASSERT);
        return 0;
    default: {
        /* What lasted, and was stopped meanwhile, is not in the way of the same again. */
        int64_t result = 0;
        FOR_EACH_AROUND(a)
        result += a->try_lasting();
        return (uint64_t)result;
    }
    }
}

static uint64_t run(uint64_t seed, uint64_t number, bool verbose)
{
    static const processor_work works[] = {smp_spin, halt, lasting, NULL};
    struct sequence draw = {.random = seed * HASH_PRIME ^ number};
    struct processor *p = &processors[1 + sequence_below(&draw, processor_count - 1)];
    processor_work work = works[sequence_below(&draw, LENGTH_OF(works))];
    unsigned count = (unsigned)sequence_below(&draw, ACTIONS_MAX);
    uint64_t hash = HASH_BASIS;
    bool left = false; /* the work, by an INIT */

    if (verbose)
        log_printf("smp-sequence: number=%lu processor=%u spins=%d halts=%d lasts=%d\n", number,
                   p->number, work == smp_spin, work == halt, work == lasting);
    if (sequence_chance(&draw, 50))
        hash = hash_word(hash, smp_fill_msrs(sequence_random(&draw), verbose));
    place_code(0); /* where a SIPI may come before any other code is there */
    uint64_t alive = p->alive;
    if (work != NULL)
        smp_leave_with(p, work);
    /* What lasts takes its time to begin. */
    for (unsigned i = 0;
         i < ALIVE_WAIT && (work == smp_spin || work == lasting) && p->alive == alive; i++)
        __asm__ volatile("pause");
    smp_delay(WAIT);
    for (unsigned i = 0; i < count; i++) {
        uint64_t action = sequence_below(&draw, 5), random = sequence_random(&draw), result = 0;
        left |= action < 2;
        /* In real mode nothing handles an NMI; and what lasts keeps another one out. */
        if (action == 3 ? !left : action != 4 || left || work != lasting)
            result = act(p, action, random);
        hash = hash_word(hash, result);
        if (verbose)
            log_printf("smp-action: number=%lu processor=%u action=%lu result=%ld\n", number,
                       p->number, action, (int64_t)result);
    }
    stop(p);
    smp_prepare(p, smp_page(0));
    smp_start_all(p, 1);
    bool up = smp_came_up(p);
    uint64_t again = act(p, 4, 0);
    hash = hash_word(hash, smp_read_msrs(verbose));
    if (verbose)
        log_printf("smp-started: number=%lu processor=%u came_up=%d result=%ld\n", number,
                   p->number, up, (int64_t)again);
    return hash_word(hash_word(hash, up), again);
}

void test_smp_sequence(const struct job *job)
{
    uint64_t seed = job->number[0], first = job->number[1], end = first + job->number[2];
    bool verbose = job->word[0] == 'v';

    fuzz_guest = under_pmuvisor();
    if (processor_count < 2 || smp_page(CODE_PAGE) == 0) {
        tap_skip(job->name, "there is one processor alone");
        return;
    }
    for (uint64_t i = first; i < end; i++)
        log_printf("sequence-hash: seed=%lu end=%lu hash=%08x\n", seed, i + 1,
                   (uint32_t)run(seed, i, verbose));
    tap_result(true, job->name, NULL);
}
