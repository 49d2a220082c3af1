/* SPDX-License-Identifier: BSD-2-Clause
 * sharing.c: the load of perf c2c and perf lock: two threads, each on a processor of its own where
 * there are two, add to counters, or map memory. Usage: sharing shared|apart|maps: the counters are
 * in one cache line, or each in its own.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 2
#define ROUNDS 200000
#define MAPS 500
#define PAGE 4096
#define LINE 64

static volatile uint64_t counts[THREADS * LINE / sizeof(uint64_t)] __attribute__((aligned(LINE)));
static int maps;
static unsigned stride = 1;

static void stay_on(unsigned processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* Each map and each unmap takes the lock of the process's memory. */
static void map_and_unmap(void)
{
    for (int i = 0; i < MAPS; i++) {
        void *place = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

        if (place != MAP_FAILED)
            munmap(place, PAGE);
    }
}

static void *add(void *which)
{
    uintptr_t own = (uintptr_t)which;

    stay_on((unsigned)own);
    if (maps) {
        map_and_unmap();
        return NULL;
    }
    for (int i = 0; i < ROUNDS; i++)
        counts[own * stride]++;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];

    maps = argc > 1 && strcmp(argv[1], "maps") == 0;
    if (argc > 1 && strcmp(argv[1], "apart") == 0)
        stride = LINE / sizeof(uint64_t);
    for (uintptr_t n = 0; n < THREADS; n++)
        if (pthread_create(&threads[n], NULL, add, (void *)n) != 0)
            return 1;
    for (unsigned n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    printf("sharing: %llu\n", (unsigned long long)(counts[0] + counts[stride]));
    return 0;
}
