/* SPDX-License-Identifier: BSD-2-Clause
 * chase.c: the program `chase`: each load's address comes from the one before, in a random cycle
 * over all lines of a working set that is larger than the last level of cache.
 */
#include "accuracy.h"

#include <stdlib.h>

#define LINE_BYTES 64u
#define STEPS_PER_SHARE 131072u

struct line {
    struct line *next;
    uint64_t number;
    uint8_t rest[LINE_BYTES - sizeof(struct line *) - sizeof(uint64_t)];
};
_Static_assert(sizeof(struct line) == LINE_BYTES, "a struct line is one line of cache");

struct chase {
    uint64_t steps;
    uint64_t bytes;
    struct line *lines;
};

static void *prepare(const struct work *work)
{
    struct line *lines = pages_get(work->bytes, work);
    struct chase *chase = lines == NULL ? NULL : malloc(sizeof(*chase));
    uint64_t count = work->bytes / LINE_BYTES, random = work->seed;

    if (chase == NULL)
        return NULL;
    for (uint64_t i = 0; i < count; i++) {
        lines[i].next = &lines[i];
        lines[i].number = i;
    }
    /* Each line changes its successor with an earlier line's: all remain on one cycle. */
    for (uint64_t i = 1; i < count; i++) {
        struct line *other = &lines[next_random(&random) % i];
        struct line *next = lines[i].next;

        lines[i].next = other->next;
        other->next = next;
    }
    *chase = (struct chase){work->shares * STEPS_PER_SHARE, work->bytes, lines};
    return chase;
}

static uint64_t run(void *data)
{
    const struct chase *chase = data;
    const struct line *line = chase->lines;
    uint64_t sum = 0;

    for (uint64_t i = 0; i < chase->steps; i++) {
        sum += line->number;
        line = line->next;
    }
    return sum;
}

static void release(void *data)
{
    struct chase *chase = data;

    pages_put(chase->lines, chase->bytes);
    free(chase);
}

const struct program chase_program = {
    .name = "chase",
    .memory = true,
    .prepare = prepare,
    .run = run,
    .release = release,
};
