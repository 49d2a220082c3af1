/* SPDX-License-Identifier: BSD-2-Clause
 * region.c: begins or ends a region of the emulator's ledger, for scripts.
 * Usage: region NUMBER begin|end
 */
#include "programs/measure/region.h"

#include <stdlib.h>

int main(int argc, char *argv[])
{
    if (argc != 3)
        return 2;
    region_mark((uint32_t)atoi(argv[1]), argv[2][0] == 'b');
    return 0;
}
