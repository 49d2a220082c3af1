/* SPDX-License-Identifier: BSD-2-Clause
 * accuracy.h: what the parts of the accuracy experiment share: the programs, the group of counters,
 * the measured call. Linux user space only, natively and under any hypervisor alike.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "programs/measure/region.h"

enum event {
    EVENT_CYCLES,
    EVENT_INSTRUCTIONS,
    EVENT_BRANCHES,
    EVENT_LLC_REFERENCES,
    EVENT_LLC_MISSES,
    EVENTS,
};

extern const char *const event_names[EVENTS];

/* Regions of the emulator's ledger: 2500 to 2699 are this experiment's. */
enum {
    REGION_PROGRAM_FIRST = 2500, /* each program has REGION_STEP of them */
    REGION_STEP = 10,
    REGION_ALONE = 0,    /* the program in one thread: from its first instruction to its last */
    REGION_ANY = 1,      /* the same, its memory in whatever pages Linux gives */
    REGION_THREADS = 2,  /* the program in all threads, from their start to the last one's end */
    REGION_RDPMC = 2600, /* READS counts read by RDPMC */
    REGION_READ = 2601,  /* READS counts read by read() */
    REGION_EXITS = 2602, /* EXITS CPUID instructions */
    REGION_SCENARIOS = 2610, /* as those of a program, and */
    REGION_OWN = 3,          /* its threads on two processors */
    REGION_MIGRATED = 4,     /* its threads moved between two processors all the time */
    REGION_OVERFLOWS = 2620, /* plus the event's number and, times ten, that of the threads */
    REGION_UNMARKED = 2699,  /* for the passes that are not looked at */
};

#define THREADS 2

/* How much of its work a program does: one run is SHARES_ALONE shares, times the scale. The threads
 * do different numbers of them, so that counts that go to the wrong thread are seen. */
#define SHARES_ALONE 4u
#define SHARES_OF_THREAD(thread) (SHARES_ALONE - 1 + (thread)) /* from 1 */

enum pages {
    PAGES_PLACED, /* large ones, of the same places in the caches each time */
    PAGES_ANY,    /* as Linux gives them */
};

struct work {
    uint64_t shares;
    uint64_t seed;
    uint64_t bytes; /* the working set of those programs that have a large one */
    enum pages pages;
    unsigned place; /* which places in the caches come first, so that threads have others */
};

struct program {
    const char *name;
    bool memory; /* it has memory, which its counts of the caches depend on */
    /* Gives what run() wants, all of its memory touched; NULL when there is none. */
    void *(*prepare)(const struct work *work);
    /* The deterministic work. No system call, nothing of the C library. */
    uint64_t (*run)(void *data);
    void (*release)(void *data);
    /* What run() retires with its RET, where that is known by construction; else NULL. */
    uint64_t (*instructions)(const struct work *work);
    uint64_t (*branches)(const struct work *work);
};

extern const struct program loop_program, sort_program, chase_program, stream_program, hash_program,
    matrix_program, mixed_program;

/* measured.asm: enables the group of fd, runs, disables it. Its own part of the counts: */
#define MEASURED_INSTRUCTIONS 14u
#define MEASURED_BRANCHES 2u /* CALL, and SYSCALL as a far branch */

struct measured {
    int32_t fd;
    uint32_t region;
    uint64_t (*run)(void *data);
    void *data;
    uint64_t result;
};

void measured(struct measured *m);

/* measured.asm: a loop of that many rounds, at least 1; instructions and branches with its RET.
 * loop_run() gets the number by a pointer and has one instruction more. */
#define LOOP_INSTRUCTIONS(rounds) (4 * (rounds) + 2)
#define LOOP_BRANCHES(rounds) ((rounds) + 1)
uint64_t loop_rounds(uint64_t rounds);
uint64_t loop_run(void *rounds);
/* One addition of doubles (ADDSD) for each of the rounds, at least 1. */
void fp_rounds(uint64_t rounds);

/* counters.c */
struct counters {
    int fd[EVENTS]; /* fd[0] is the group's leader */
    volatile struct perf_event_mmap_page *page[EVENTS];
    int tsc; /* also of the group; -1: this kernel does not count it */
};

struct counts {
    uint64_t value[EVENTS];
    uint64_t tsc; /* while the thread ran, in all modes; 0: not counted */
};

int perf_event_open(struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
                    unsigned long flags);
/* The five events of this thread, in one group, not yet enabled. Says what is wrong when false. */
bool counters_open(struct counters *c, bool user_only);
/* Maps their pages, for RDPMC. */
bool counters_map(struct counters *c);
void counters_enable(const struct counters *c);
/* Disabled, and all counts 0. */
void counters_reset(const struct counters *c);
void counters_close(struct counters *c);
/* The counts; false, with an error line, where they are not of the whole time. */
bool counters_read(const struct counters *c, struct counts *counts);
/* Frees the counter that the NMI watchdog has. */
bool counters_stop_watchdog(void);
/* The count by RDPMC, after the protocol of <linux/perf_event.h>; false: not to be had this way. */
bool counter_rdpmc(const volatile struct perf_event_mmap_page *page, uint64_t *count);

/* report.c. What the lines are of: accuracy or scenarios. */
extern const char *experiment;

/* Each item, NAME.EVENT and so on, is a format and what it takes. */
void print_region(uint32_t region, uint64_t operations, const char *item, ...)
    __attribute__((format(printf, 3, 4)));
void print_skip(const char *why, const char *item, ...) __attribute__((format(printf, 2, 3)));
void print_value(const char *metric, uint64_t value, const char *item, ...)
    __attribute__((format(printf, 3, 4)));
/* All values of a metric, one for each pass: sorts them. */
void print_values(const char *metric, uint64_t *values, unsigned count, const char *item, ...)
    __attribute__((format(printf, 4, 5)));
/* One line "accuracy: error=..."; gives false. */
bool failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* main.c */
struct options {
    unsigned passes;
    uint64_t scale;
    uint64_t bytes;
};

/* passes.c: the programs; rdpmc.c: RDPMC against read(), and work with VM exits in it. */
bool passes_of(const struct program *program, unsigned number, const struct options *options);
bool rdpmc_alone(const struct options *options);
bool rdpmc_threads(const struct options *options);
bool exits_alone(void);

/* scenarios.c: one program in the arrangements of perfctr-xen's section 5.1.1; overflow.c: PMIs of
 * threads, its section 5.1.2. */
bool scenarios(const struct options *options);
bool overflows(const struct options *options);

/* Where threads run: all on one processor; each on its own, as far as there are enough; or moved to
 * any, again and again, by numbers that are the same each time. */
enum place {
    PLACE_SHARED,
    PLACE_OWN,
    PLACE_MIGRATED,
};

/* Runs work(argument) in several threads at once; number is from 1. */
struct thread_work {
    bool (*work)(struct thread_work *own);
    void *argument;
    unsigned number;
    enum place place;
    bool done;
};

/* How long a turn is where threads share a processor, and a moved thread stays; 50 us without this.
 */
void threads_take_turns_of(unsigned nanoseconds);
/* Called by the work of each thread, once, when it is ready: goes on when all are. */
void threads_meet(void);
/* How often the calling thread has given the processor to another one. */
uint64_t thread_switches(void);

#define THREADS_MAX 4
/* How many processors this process may use, at most PROCESSORS_MAX. */
#define PROCESSORS_MAX 64
unsigned processors_usable(void);
/* All threads to come run on the processor that this runs on. */
bool threads_stay_here(void);
/* region: from when all threads are ready to when all are done. */
bool threads_run(struct thread_work *work, unsigned count, enum place place, uint32_t region);
/* passes.c: a program in THREADS threads; the items end in `.LETTER1` and so on. */
bool passes_together(const struct program *program, enum place place, char letter, uint32_t region,
                     const struct options *options);
bool passes_alone(const struct program *program, enum pages pages, uint32_t region,
                  const struct options *options);

/* Deterministic numbers: a 64-bit xorshift. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* pages.c: memory with all of its pages there; NULL when there is none. */
void *pages_get(size_t bytes, const struct work *work);
/* Reads memory of its own until none of another pass's is in the emulator's caches. */
void caches_fill(void);
void pages_put(void *pages, size_t bytes);
