/* SPDX-License-Identifier: BSD-2-Clause
 * listing2.c: the workload that the job `profile` samples: the thesis's "Simple workload" (its
 * Listing 2), whose shares of time are known: a 30 %, aa 10 %, b 40 %, bb 30 %, bbb 10 %, c 30 %,
 * each with its callees. Built without optimisation and with frame pointers.
 * Arguments: ITER, 100,000,000 in the thesis, and the region that marks the work, 0 for none. What
 * is marked and timed is the work alone, without the start of the process or of who profiles it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NANOSECONDS_PER_SECOND 1000000000ll

static int iter = 100000;

/* The limit is worked out before the loop, so that each round is the same four instructions. */
#define LOOP(x) for (int i = 0, n = (x); i < n; i++)

void aa(void)
{
    LOOP(iter) {}
}

void a(void)
{
    LOOP(2 * iter) {}
    aa();
}

void bbb(void)
{
    LOOP(iter) {}
}

void bb(void)
{
    LOOP(2 * iter) {}
    bbb();
}

void b(void)
{
    LOOP(1 * iter) {}
    bb();
}

void c(void)
{
    LOOP(3 * iter) {}
}

/* The emulator's marker; nothing on hardware. */
static void mark(uint32_t region, uint32_t begin)
{
    if (region != 0)
        __asm__ volatile("xchg %%bx, %%bx" : : "a"(region), "c"(begin) : "memory");
}

int main(int argc, char **argv)
{
    uint32_t region = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    struct timespec start, end;

    if (argc > 1)
        iter = atoi(argv[1]);
    mark(region, 1);
    clock_gettime(CLOCK_MONOTONIC, &start);
    a();
    b();
    c();
    clock_gettime(CLOCK_MONOTONIC, &end);
    mark(region, 0);
    printf("listing2: ns=%lld\n",
           (end.tv_sec - start.tv_sec) * NANOSECONDS_PER_SECOND + (end.tv_nsec - start.tv_nsec));
    return 0;
}
