/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c: Usage: programs NAME [WORD...]
 */
#include "programs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(void);
} programs[] = {
#define ROW(name) {#name, run_##name},
    PROGRAMS(ROW)
#undef ROW
};

char **words;

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

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    words = arguments + 2;
    for (size_t i = 0; count > 1 && i < sizeof(programs) / sizeof(programs[0]); i++)
        if (strcmp(programs[i].name, arguments[1]) == 0)
            return programs[i].run();
    printf("failed: %s: no such program\n", count > 1 ? arguments[1] : "none");
    return 1;
}
