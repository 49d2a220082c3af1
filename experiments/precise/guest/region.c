/* SPDX-License-Identifier: BSD-2-Clause
 * region.c: begins or ends a region of the emulator's ledger, for scripts; or prints the TSC.
 * Usage: region NUMBER begin|end; region tsc
 */
#include "programs/measure/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char *argv[])
{
    if (argc == 2 && strcmp(argv[1], "tsc") == 0) {
        printf("%llu\n", (unsigned long long)__builtin_ia32_rdtsc());
        return 0;
    }
    if (argc != 3)
        return 2;
    region_mark((uint32_t)atoi(argv[1]), argv[2][0] == 'b');
    return 0;
}
