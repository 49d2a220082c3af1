/* SPDX-License-Identifier: BSD-2-Clause
 * fuzz.c: one to four random changes of an input of the corpus: a bit, a byte, a byte in or out, a
 * piece of another input.
 */
#include "fuzz.h"

#include <string.h>

#define CHANGES_MAX 4u
#define KINDS 5u
#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

/* xorshift64*: S. Vigna, "An experimental exploration of Marsaglia's xorshift generators,
 * scrambled", 2014. */
static uint32_t any(struct fuzz *fuzz, uint32_t below)
{
    fuzz->random ^= fuzz->random >> 12;
    fuzz->random ^= fuzz->random << 25;
    fuzz->random ^= fuzz->random >> 27;
    return (uint32_t)(fuzz->random * 0x2545f4914f6cdd1dull >> 32) % below;
}

void fuzz_begin(struct fuzz *fuzz, const struct target *target, uint64_t seed)
{
    *fuzz = (struct fuzz){.target = target, .random = seed};
    fuzz->now.size = strlen(target->seed);
    memcpy(fuzz->now.data, target->seed, fuzz->now.size);
    fuzz_keep(fuzz);
}

static void change(struct fuzz *fuzz, struct input *input)
{
    uint32_t kind = any(fuzz, KINDS);
    uint32_t at = any(fuzz, (uint32_t)input->size);
    const struct input *other;

    switch (kind) {
    case 0:
        input->data[at] ^= (uint8_t)(1u << any(fuzz, 8));
        break;
    case 1:
        input->data[at] = (uint8_t)any(fuzz, 256);
        break;
    case 2:
        if (input->size < INPUT_MAX) {
            memmove(&input->data[at + 1], &input->data[at], input->size - at);
            input->data[at] = (uint8_t)any(fuzz, 256);
            input->size++;
        }
        break;
    case 3:
        if (input->size > 1) {
            memmove(&input->data[at], &input->data[at + 1], input->size - at - 1);
            input->size--;
        }
        break;
    default:
        other = &fuzz->corpus[any(fuzz, fuzz->corpus_size)];
        for (uint32_t i = any(fuzz, (uint32_t)other->size); i < other->size && at < INPUT_MAX;)
            input->data[at++] = other->data[i++];
        input->size = at > input->size ? at : input->size;
        break;
    }
}

void fuzz_mutate(struct fuzz *fuzz)
{
    fuzz->now = fuzz->corpus[any(fuzz, fuzz->corpus_size)];
    for (uint32_t changes = 1 + any(fuzz, CHANGES_MAX); changes > 0; changes--)
        change(fuzz, &fuzz->now);
}

void fuzz_execute(void *argument)
{
    struct fuzz *fuzz = argument;

    fuzz->reached = fuzz->target->parse(fuzz->now.data, fuzz->now.size);
}

void fuzz_keep(struct fuzz *fuzz)
{
    if (fuzz->corpus_size < CORPUS_MAX)
        fuzz->corpus[fuzz->corpus_size++] = fuzz->now;
}

uint64_t fuzz_digest(const struct fuzz *fuzz)
{
    uint64_t digest = FNV_BASIS;

    for (unsigned n = 0; n < fuzz->corpus_size; n++) {
        const struct input *input = &fuzz->corpus[n];

        digest = (digest ^ input->size) * FNV_PRIME;
        for (size_t i = 0; i < input->size; i++)
            digest = (digest ^ input->data[i]) * FNV_PRIME;
    }
    return digest;
}
