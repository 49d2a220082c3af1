/* SPDX-License-Identifier: BSD-2-Clause
 * mixed.c: the program `mixed` of the scenarios: branches, memory and floating-point numbers by
 * turns, as the one microbenchmark of perfctr-xen's section 5.1.1 has them. Its parts are other
 * programs of this folder.
 */
#include "accuracy.h"

#include <stdlib.h>

#define PARTS 3u

static const struct program *const part[PARTS] = {&sort_program, &hash_program, &matrix_program};

struct mixed {
    void *data[PARTS];
};

static void release(void *data)
{
    struct mixed *m = data;

    for (unsigned i = 0; i < PARTS; i++)
        if (m->data[i] != NULL)
            part[i]->release(m->data[i]);
    free(m);
}

static void *prepare(const struct work *work)
{
    struct mixed *m = calloc(1, sizeof(*m));

    for (unsigned i = 0; m != NULL && i < PARTS; i++) {
        m->data[i] = part[i]->prepare(work);
        if (m->data[i] == NULL) {
            release(m);
            return NULL;
        }
    }
    return m;
}

static uint64_t run(void *data)
{
    struct mixed *m = data;
    uint64_t sum = 0;

    for (unsigned i = 0; i < PARTS; i++)
        sum += part[i]->run(m->data[i]);
    return sum;
}

const struct program mixed_program = {
    .name = "mixed",
    .memory = true,
    .prepare = prepare,
    .run = run,
    .release = release,
};
