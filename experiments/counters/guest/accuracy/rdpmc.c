/* SPDX-License-Identifier: BSD-2-Clause
 * rdpmc.c: counts read in user mode by RDPMC against the same by read(), alone and in threads that
 * share the processor; and a count that includes privileged mode around work that a hypervisor must
 * exit for: root mode may not count. SDM Vol. 2, "RDPMC"; Vol. 3, "Instructions That Cause VM Exits
 * Unconditionally".
 */
#include "accuracy.h"

#include <linux/perf_event.h>

/* The events whose counts are known: the first ones, without those of the caches. */
#define KNOWN_EVENTS EVENT_LLC_REFERENCES
#define BLOCK_ROUNDS 100000u
#define READS 1000u
#define THREAD_ROUNDS_PER_SHARE 250000u

#define EXITS 100u
/* A block with a timer tick or another interrupt in it counts more: the least of several. */
#define EXITS_TRIES 20u

/* The counts of a block of that many rounds by RDPMC: the block is run for each event. */
static bool block_by_rdpmc(const struct counters *c, uint64_t rounds, struct counts *counts)
{
    uint64_t before, after;

    for (unsigned i = 0; i < KNOWN_EVENTS; i++) {
        bool before_valid = counter_rdpmc(c->page[i], &before);

        loop_rounds(rounds);
        if (!counter_rdpmc(c->page[i], &after) || !before_valid) {
            return failed("no RDPMC in user mode for %s; wanted a kernel that allows it: "
                          "/sys/bus/event_source/devices/cpu/rdpmc at least 1",
                          event_names[i]);
        }
        counts->value[i] = after - before;
    }
    return true;
}

static bool block_by_read(const struct counters *c, uint64_t rounds, struct counts *counts)
{
    struct counts before, after;

    if (!counters_read(c, &before))
        return false;
    loop_rounds(rounds);
    if (!counters_read(c, &after))
        return false;
    for (unsigned i = 0; i < KNOWN_EVENTS; i++)
        counts->value[i] = after.value[i] - before.value[i];
    return true;
}

static void print_block(const char *how, const struct counts *block, const struct counts *empty,
                        uint64_t rounds)
{
    for (unsigned i = 0; i < KNOWN_EVENTS; i++) {
        print_value("count", block->value[i] - empty->value[i], "%s.%s", how, event_names[i]);
        print_value("overhead", empty->value[i], "%s.%s", how, event_names[i]);
    }
    print_value("expected", LOOP_INSTRUCTIONS(rounds + 1) - LOOP_INSTRUCTIONS(1), "%s.instructions",
                how);
    print_value("expected", LOOP_BRANCHES(rounds + 1) - LOOP_BRANCHES(1), "%s.branches", how);
}

/* The same block by both, and how much is left when the block is as short as it can be. */
static bool compare(const struct counters *c, const struct options *options)
{
    uint64_t rounds = options->scale * BLOCK_ROUNDS;
    struct counts by_rdpmc, by_read, empty_rdpmc, empty_read;

    /* First uses, their page faults and cache misses, belong to no count. */
    if (!block_by_rdpmc(c, 1, &empty_rdpmc) || !block_by_read(c, 1, &empty_read) ||
        !block_by_rdpmc(c, 1, &empty_rdpmc) || !block_by_read(c, 1, &empty_read) ||
        !block_by_rdpmc(c, rounds + 1, &by_rdpmc) || !block_by_read(c, rounds + 1, &by_read)) {
        return false;
    }
    print_block("rdpmc", &by_rdpmc, &empty_rdpmc, rounds);
    print_block("read", &by_read, &empty_read, rounds);
    return true;
}

/* What one count costs, by either: no VM exit by RDPMC where the PMU is the guest's. */
static bool read_many(const struct counters *c)
{
    struct counts counts;
    uint64_t count;
    bool valid = true;

    region_mark(REGION_RDPMC, true);
    for (unsigned i = 0; i < READS; i++)
        valid &= counter_rdpmc(c->page[EVENT_INSTRUCTIONS], &count);
    region_mark(REGION_RDPMC, false);
    region_mark(REGION_READ, true);
    for (unsigned i = 0; i < READS; i++)
        valid &= counters_read(c, &counts);
    region_mark(REGION_READ, false);
    print_region(REGION_RDPMC, READS, "one_rdpmc");
    print_region(REGION_READ, READS, "one_read");
    return valid || failed("RDPMC in user mode did not go on");
}

bool rdpmc_alone(const struct options *options)
{
    struct counters counters;
    bool done;

    if (!counters_open(&counters, true))
        return false;
    done = counters_map(&counters);
    if (done) {
        counters_enable(&counters);
        done = compare(&counters, options) && read_many(&counters);
    }
    counters_close(&counters);
    return done;
}

struct self_read {
    uint64_t rounds;
    struct counters counters;
    struct counts by_rdpmc, by_read;
    bool valid;
    uint64_t switches;
};

static uint64_t loop_and_read(void *data)
{
    struct self_read *own = data;
    uint64_t result = loop_rounds(own->rounds);

    own->valid = true;
    for (unsigned i = 0; i < KNOWN_EVENTS; i++)
        own->valid &= counter_rdpmc(own->counters.page[i], &own->by_rdpmc.value[i]);
    return result;
}

static bool self_read_in_thread(struct thread_work *work)
{
    struct self_read *own = work->argument;
    struct measured call = {.region = REGION_UNMARKED, .run = loop_and_read, .data = own};
    bool open = counters_open(&own->counters, true);
    bool done = open && counters_map(&own->counters);

    threads_meet();
    if (done) {
        call.fd = own->counters.fd[0];
        own->switches = thread_switches();
        measured(&call);
        own->switches = thread_switches() - own->switches;
        done = counters_read(&own->counters, &own->by_read) &&
               (own->valid || failed("RDPMC in user mode did not go on in a thread"));
    }
    if (open)
        counters_close(&own->counters);
    return done;
}

bool rdpmc_threads(const struct options *options)
{
    static struct self_read own[THREADS];
    struct thread_work work[THREADS] = {0};

    for (unsigned t = 0; t < THREADS; t++) {
        own[t].rounds = SHARES_OF_THREAD(t + 1) * options->scale * THREAD_ROUNDS_PER_SHARE;
        work[t].work = self_read_in_thread;
        work[t].argument = &own[t];
    }
    if (!threads_run(work, THREADS, PLACE_SHARED, REGION_UNMARKED))
        return false;
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < KNOWN_EVENTS; i++) {
            print_value("count", own[t].by_rdpmc.value[i], "rdpmc.%s.t%u", event_names[i], t + 1);
            print_value("count", own[t].by_read.value[i], "read.%s.t%u", event_names[i], t + 1);
        }
        print_value("switches", own[t].switches, "rdpmc.t%u", t + 1);
    }
    return true;
}

static void with_exits(unsigned long rounds)
{
    unsigned eax, ecx;

    __asm__ volatile("1: xor %%eax, %%eax\n\t"
                     "xor %%ecx, %%ecx\n\t"
                     "cpuid\n\t"
                     "dec %2\n\t"
                     "jnz 1b"
                     : "=&a"(eax), "=&c"(ecx), "+r"(rounds)
                     :
                     : "ebx", "edx", "cc");
}

/* The least count of the block with that many CPUIDs. Not inlined: what surrounds the block must
 * not depend on their number. */
__attribute__((noinline)) static bool least_with_exits(const struct counters *c,
                                                       unsigned long rounds, uint64_t *least)
{
    uint64_t before, after;
    bool valid = true;

    *least = UINT64_MAX;
    for (unsigned i = 0; i < EXITS_TRIES; i++) {
        valid &= counter_rdpmc(c->page[EVENT_INSTRUCTIONS], &before);
        with_exits(rounds);
        valid &= counter_rdpmc(c->page[EVENT_INSTRUCTIONS], &after);
        if (after - before < *least)
            *least = after - before;
    }
    return valid;
}

/* All modes are counted: natively five instructions for each CPUID, with XOR, XOR, DEC and JNZ. In
 * a guest the CPUID is not retired, but done for it: one less, and more by whatever counts in root
 * mode. */
bool exits_alone(void)
{
    struct counters counters;
    uint64_t least, empty;
    bool done;

    if (!counters_open(&counters, false))
        return false;
    done = counters_map(&counters);
    counters_enable(&counters);
    done = done && least_with_exits(&counters, EXITS + 1, &least) &&
           least_with_exits(&counters, 1, &empty);
    counters_close(&counters);
    if (!done)
        return failed("no count of all modes by RDPMC around CPUID");
    print_value("all_modes", least - empty, "exits");
    region_mark(REGION_EXITS, true);
    with_exits(EXITS);
    region_mark(REGION_EXITS, false);
    print_region(REGION_EXITS, EXITS, "exits");
    return true;
}
