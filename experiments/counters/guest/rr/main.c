/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c: Usage: programs NAME [WORD...]
 */
#include "programs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct program programs[] = {
    {"plain", run_plain},     {"threads", run_threads}, {"conditions", run_conditions},
    {"signals", run_signals}, {"faults", run_faults},   {"queued", run_queued},
    {"fork", run_fork},       {"exec", run_exec},       {"spawn", run_spawn},
    {"unix", run_unix},       {"tcp", run_tcp},         {"timers", run_timers},
    {"clocks", run_clocks},   {"cpuid", run_cpuid},     {"selfmod", run_selfmod},
    {"shared", run_shared},   {"files", run_files},     {"events", run_events},
    {"random", run_random},
};

void must(int good, const char *what)
{
    if (good)
        return;
    printf("failed: %s: %s\n", what, strerror(errno));
    exit(1);
}

uint32_t work(uint32_t seed, unsigned rounds)
{
    uint32_t sum = seed;

    for (unsigned i = 0; i < rounds; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (seed & 0x10000)
            sum += seed >> 16;
        else if (seed & 0x20000)
            sum ^= seed >> 8;
    }
    return sum;
}

int main(int count, char **words)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; count > 1 && i < sizeof(programs) / sizeof(programs[0]); i++)
        if (strcmp(programs[i].name, words[1]) == 0)
            return programs[i].run(words + 2);
    printf("failed: %s: no such program\n", count > 1 ? words[1] : "none");
    return 1;
}
