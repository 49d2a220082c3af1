/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c: memtruth, the job whose memory accesses PMUvisor traces and the emulator lists
 * (emulator/README.md). One process for each processor, pinned to it; all trace at
 * once. Words, of the environment: pmv.mem.mode=writes|reads|all|devices|pages, pmv.mem.rounds=N,
 * pmv.mem.samples=0|1 (default 1: with PMIs). Wants user_hypercalls=1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command_line.h"
#include "experiments/shared/guest/hypervisor.h"
#include "hypercall.h"
#include "load.h"
#include "trace_ring.h"

#define MARKER_MEMORY_LOG 5 /* testbed/instrument/decode.cc */
#define WORD_MAX 64
#define MORE_THAN_A_LOG 1200 /* pages: the processor's log has 512 */

/* What all processes wait for: in shared memory. */
static struct {
    int ready, go, done;
} *shared;

/* 1 reads, 2 writes, 3 both, 4 devices' alone, 0 none. */
static void list(uint32_t which)
{
    __asm__ volatile("xchg %%bx, %%bx" : : "a"(which), "c"(MARKER_MEMORY_LOG) : "memory");
}

/* Of all memory. */
static int64_t memtrace(uint64_t mode)
{
    const struct memory_request request = {.mode = mode};
    uint64_t ring, bytes;

    return hypercall_memory(&request, &ring, &bytes);
}

static int worker(int processor, uint64_t mode, int rounds, bool samples)
{
    if (!run_on(processor))
        return 1;
    __atomic_fetch_add(&shared->ready, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST))
        sched_yield();
    int64_t was = memtrace(mode);
    if (was != MEMTRACE_OFF) {
        printf("memtruth: error=\"processor %d: the hypercall gave %ld\"\n", processor, (long)was);
        return 1;
    }
    int failed = load_run(rounds, samples, mode == MEMTRACE_DEVICES);
    if (mode == MEMTRACE_PAGES)
        failed |= load_touch(MORE_THAN_A_LOG);
    was = memtrace(MEMTRACE_OFF);
    return failed != 0 || was != (int64_t)mode;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], LOAD_CHILD) == 0)
        return 0;
    char name[WORD_MAX], rounds_word[WORD_MAX], samples_word[WORD_MAX];
    command_line_word("pmv.mem.mode", "writes", name, sizeof(name));
    command_line_word("pmv.mem.rounds", "1", rounds_word, sizeof(rounds_word));
    command_line_word("pmv.mem.samples", "1", samples_word, sizeof(samples_word));
    uint64_t mode = strcmp(name, "all") == 0       ? MEMTRACE_ALL
                    : strcmp(name, "reads") == 0   ? MEMTRACE_READS
                    : strcmp(name, "devices") == 0 ? MEMTRACE_DEVICES
                    : strcmp(name, "pages") == 0   ? MEMTRACE_PAGES
                                                   : MEMTRACE_WRITES;
    int rounds = atoi(rounds_word);
    bool samples = atoi(samples_word) != 0;
    int processors = (int)sysconf(_SC_NPROCESSORS_ONLN), failed = 0, status;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < processors; i++)
        if (fork() == 0)
            _exit(worker(i, mode, rounds, samples));
    while (__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) < processors)
        sched_yield();
    static const uint32_t lists[] = {0, 2, 1, 3, 4, 2};
    list(lists[mode]);
    __atomic_store_n(&shared->go, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < processors; i++)
        failed |= wait(&status) < 0 || status != 0;
    list(0);
    printf("memtruth: processors=%d mode=%d rounds=%d failed=%d\n", processors, (int)mode, rounds,
           failed);
    return failed;
}
