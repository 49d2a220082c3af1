/* SPDX-License-Identifier: BSD-2-Clause
 * loop.c: the program `loop`: integer arithmetic in registers, of which every instruction and
 * branch is known by construction (measured.asm). It touches no memory but its argument.
 */
#include "accuracy.h"

#include <stdlib.h>

#define ROUNDS_PER_SHARE 250000u

static void *prepare(const struct work *work)
{
    uint64_t *rounds = malloc(sizeof(*rounds));

    if (rounds != NULL)
        *rounds = work->shares * ROUNDS_PER_SHARE;
    return rounds;
}

static uint64_t instructions(const struct work *work)
{
    return LOOP_INSTRUCTIONS(work->shares * ROUNDS_PER_SHARE) + 1;
}

static uint64_t branches(const struct work *work)
{
    return LOOP_BRANCHES(work->shares * ROUNDS_PER_SHARE);
}

const struct program loop_program = {
    .name = "loop",
    .prepare = prepare,
    .run = loop_run,
    .release = free,
    .instructions = instructions,
    .branches = branches,
};
