/* SPDX-License-Identifier: BSD-2-Clause
 * leave.c: leaves a file of the guest's with the emulator (testbed/README.md, "Files of the
 * guest"). Usage: leave NAME FILE
 */
#include <stdio.h>

#include "experiments/shared/guest/hand_over.h"

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: leave NAME FILE\n");
        return 2;
    }
    return hand_over_file(argv[1], argv[2]) ? 0 : 1;
}
