/* SPDX-License-Identifier: BSD-2-Clause
 * fuzz.h: the mutation loop. Deterministic: the same seed and the same feedback give the same
 * inputs.
 */
#pragma once

#include "targets.h"

#define CORPUS_MAX 256u

struct input {
    uint8_t data[INPUT_MAX];
    size_t size;
};

struct fuzz {
    const struct target *target;
    uint64_t random;
    struct input corpus[CORPUS_MAX];
    unsigned corpus_size;
    struct input now;
    bool reached; /* by the last execution */
};

void fuzz_begin(struct fuzz *fuzz, const struct target *target, uint64_t seed);
/* Makes the next input. */
void fuzz_mutate(struct fuzz *fuzz);
/* Executes it. A function of one pointer, so that it can be traced. */
void fuzz_execute(void *fuzz);
/* Keeps it: it did something new. */
void fuzz_keep(struct fuzz *fuzz);
/* Of all inputs kept, and their order. */
uint64_t fuzz_digest(const struct fuzz *fuzz);
