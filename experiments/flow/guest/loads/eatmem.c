/* SPDX-License-Identifier: BSD-2-Clause
 * eatmem.c: the job `eatmem`: the load of paper 002's Table V (section V.D). In the machines 1 to
 * 3 (pmv.machine=) it writes random numbers into memory, round after round; in the others it
 * computes as long. With the argument `host` it is the program on the host, which does the same
 * with more memory until it is ended. Each round's times are a line, at the end: each character
 * is an exit.
 */
#include "payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORD_MAX 64
#define ROUNDS_MAX 64
#define EATERS "3" /* the machines up to this one */
#define HOST_PAUSE_US 100000
#define US 1000000ull
/* Numbers that a program computes for each that one writes: it touches no memory. */
#define COMPUTED_FOR_WRITTEN 4u

static uint64_t state = 88172645463325252u;

/* Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003. */
static uint64_t next_number(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static unsigned long number_word(const char *key, const char *fallback)
{
    char value[WORD_MAX];

    command_line_word(key, fallback, value, sizeof(value));
    return strtoul(value, NULL, 10);
}

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * US + (uint64_t)now.tv_nsec / 1000;
}

/* The next multiple of so many seconds, by the clock that KVM gives its guests. */
static void wait_for_others(void)
{
    uint64_t every = number_word("pmv.eatmem_second", "8") * US;

    usleep((useconds_t)(every - now_us() % every));
}

static void fill(uint64_t *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(*memory); i++)
        memory[i] = next_number();
}

static void compute(size_t bytes)
{
    for (size_t i = 0; i < COMPUTED_FOR_WRITTEN * bytes / sizeof(state); i++)
        (void)next_number();
}

static int on_host(size_t bytes)
{
    uint64_t *memory = malloc(bytes);

    if (memory == NULL)
        return 1;
    for (;; usleep(HOST_PAUSE_US))
        fill(memory, bytes);
}

int main(int argc, char *argv[])
{
    static uint64_t begins[ROUNDS_MAX], ends[ROUNDS_MAX];
    char *const time[] = {"/jobs/ktrace", "time", NULL};
    size_t bytes = number_word("pmv.eatmem_mib", "32") << 20;
    unsigned long rounds = number_word("pmv.eatmem_rounds", "6");
    char machine[WORD_MAX];
    bool eats;

    if (argc == 2 && strcmp(argv[1], "host") == 0)
        return on_host(number_word("pmv.eatmem_host_mib", "250") << 20);
    command_line_word("pmv.machine", "1", machine, sizeof(machine));
    eats = strcmp(machine, EATERS) <= 0;
    uint64_t *memory = malloc(bytes);
    if (memory == NULL || rounds > ROUNDS_MAX)
        return 1;
    run_program(NULL, time);
    wait_for_others();
    for (unsigned long i = 0; i < rounds; i++) {
        begins[i] = now_us();
        if (eats)
            fill(memory, bytes);
        else
            compute(bytes);
        ends[i] = now_us();
    }
    for (unsigned long i = 0; i < rounds; i++)
        printf("eatmem: begin_us=%llu end_us=%llu\n", (unsigned long long)begins[i],
               (unsigned long long)ends[i]);
    return run_program(NULL, time);
}
