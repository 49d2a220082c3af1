// SPDX-License-Identifier: BSD-2-Clause
//
// native.c: the loop of tests/kernel/write_loop.asm as a program of this machine.
// Usage: native T U ROUNDS. Prints the time in TSC ticks and in ns, as the test kernel's line has
// it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

uint64_t write_loop(uint64_t rounds, uint64_t t, uint64_t r, volatile uint64_t *written,
                    volatile uint64_t *read);

#define WORDS 512
#define NS 1000000000u

static _Alignas(4096) volatile uint64_t place[WORDS];

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * NS + (uint64_t)time.tv_nsec;
}

int main(int argc, char **argv)
{
    uint64_t t = argc == 4 ? strtoull(argv[1], NULL, 0) : 0;
    uint64_t u = argc == 4 ? strtoull(argv[2], NULL, 0) : 0;
    uint64_t rounds = argc == 4 ? strtoull(argv[3], NULL, 0) : 0;

    if (t >= u || rounds == 0) {
        fprintf(stderr, "usage: native T U ROUNDS, T below U\n");
        return 2;
    }
    uint64_t ns = now(), ticks = __rdtsc();
    uint64_t writes = write_loop(rounds, t, u - t, place, place + WORDS / 2);
    ticks = __rdtsc() - ticks, ns = now() - ns;
    printf("# memory-cost native t=%lu u=%lu rounds=%lu writes=%lu ticks=%lu ns=%lu\n", t, u,
           rounds, writes, ticks, ns);
    return writes == rounds * t ? 0 : 1;
}
