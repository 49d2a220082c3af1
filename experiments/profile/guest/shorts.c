/* SPDX-License-Identifier: BSD-2-Clause
 * shorts.c: a load of functions that are shorter than a skid: each call of one is 4, 8, 16 or 32
 * instructions and its return. Arguments as listing2's: the number of rounds, and the region that
 * marks them, 0 for none.
 */
#include "programs/measure/region.h"

#include <stdlib.h>

#define SHORT(name, count)                                                                         \
    static __attribute__((noipa)) void name(void)                                                  \
    {                                                                                              \
        __asm__ volatile(".rept " #count "\n\tnop\n.endr");                                        \
    }

SHORT(s4, 4)
SHORT(s8, 8)
SHORT(s16, 16)
SHORT(s32, 32)

int main(int argc, char *argv[])
{
    int rounds = argc > 1 ? atoi(argv[1]) : 0;
    uint32_t region = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;

    if (region != 0)
        region_mark(region, true);
    for (int i = 0; i < rounds; i++) {
        s4();
        s8();
        s16();
        s32();
    }
    if (region != 0)
        region_mark(region, false);
    return 0;
}
