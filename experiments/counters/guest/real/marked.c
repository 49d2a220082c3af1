/* SPDX-License-Identifier: BSD-2-Clause
 * marked.c: starts a program as a region of the emulator's ledger: its exits and instructions are
 * known so, without perf's own. On one processor; on hardware it only starts the program.
 * Usage: marked REGION PROGRAM [ARGUMENT...]; the exit status is the program's.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/measure/region.h"

#define STATUS_NOT_STARTED 127
#define PROGRAM_ARGUMENT 2

int main(int argc, char **argv)
{
    uint32_t region = argc > PROGRAM_ARGUMENT ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    int status = 0;
    pid_t child;

    if (region == 0) {
        fprintf(stderr, "usage: marked REGION PROGRAM [ARGUMENT...]; REGION from 1\n");
        return STATUS_NOT_STARTED;
    }
    child = fork();
    if (child == 0) {
        region_mark(region, true);
        execv(argv[PROGRAM_ARGUMENT], argv + PROGRAM_ARGUMENT);
        perror(argv[PROGRAM_ARGUMENT]);
        _exit(STATUS_NOT_STARTED);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return STATUS_NOT_STARTED;
    region_mark(region, false);
    return WEXITSTATUS(status);
}
