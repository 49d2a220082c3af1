// SPDX-License-Identifier: BSD-2-Clause
//
// native.c: the loop of tests/kernel/write_loop.asm as a program of this machine.
// Usage: native T U ROUNDS. Prints the time in TSC ticks, as the test kernel's line has it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <x86intrin.h>

uint64_t write_loop(uint64_t rounds, uint64_t t, uint64_t r, volatile uint64_t *written,
                    volatile uint64_t *read);

#define WORDS 512

static _Alignas(4096) volatile uint64_t place[WORDS];

int main(int argc, char **argv)
{
    uint64_t t = argc == 4 ? strtoull(argv[1], NULL, 0) : 0;
    uint64_t u = argc == 4 ? strtoull(argv[2], NULL, 0) : 0;
    uint64_t rounds = argc == 4 ? strtoull(argv[3], NULL, 0) : 0;

    if (t >= u || rounds == 0) {
        fprintf(stderr, "usage: native T U ROUNDS, T below U\n");
        return 2;
    }
    uint64_t ticks = __rdtsc();
    uint64_t writes = write_loop(rounds, t, u - t, place, place + WORDS / 2);
    ticks = __rdtsc() - ticks;
    printf("# memory-cost native t=%lu u=%lu rounds=%lu writes=%lu ticks=%lu\n", t, u, rounds,
           writes, ticks);
    return writes == rounds * t ? 0 : 1;
}
