/* SPDX-License-Identifier: BSD-2-Clause
 * region.c: begins or ends a region of the emulator's ledger, for scripts.
 * Usage: region NUMBER begin|end
 */
#include <stdlib.h>

int main(int argc, char *argv[])
{
    if (argc != 3)
        return 2;
    __asm__ volatile("xchg %%bx, %%bx" : : "a"(atoi(argv[1])), "c"(argv[2][0] == 'b') : "memory");
    return 0;
}
