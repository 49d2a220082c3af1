/* SPDX-License-Identifier: BSD-2-Clause
 * stream.c: the program `stream`: copies one half of a large working set to the other, word by
 * word, a quarter of it in each share.
 */
#include "accuracy.h"

#include <stdlib.h>

#define SHARES_PER_PASS 4u

struct stream {
    uint64_t shares;
    uint64_t bytes;
    uint64_t *words;
};

static void *prepare(const struct work *work)
{
    uint64_t *words = pages_get(work->bytes, work);
    struct stream *stream = words == NULL ? NULL : malloc(sizeof(*stream));

    if (stream == NULL)
        return NULL;
    *stream = (struct stream){work->shares, work->bytes, words};
    for (uint64_t i = 0; i < work->bytes / sizeof(*words); i++)
        words[i] = i ^ work->seed;
    return stream;
}

static uint64_t run(void *data)
{
    const struct stream *stream = data;
    uint64_t half = stream->bytes / sizeof(uint64_t) / 2;
    uint64_t part = half / SHARES_PER_PASS;
    const uint64_t *from = stream->words;
    uint64_t *to = stream->words + half;

    for (uint64_t share = 0; share < stream->shares; share++) {
        uint64_t first = share % SHARES_PER_PASS * part;

        for (uint64_t i = first; i < first + part; i++) {
            to[i] = from[i];
            /* A loop, not a call of memcpy(), which would choose its code by CPUID. */
            __asm__ volatile("" : "+r"(i));
        }
    }
    return to[half - 1];
}

static void release(void *data)
{
    struct stream *stream = data;

    pages_put(stream->words, stream->bytes);
    free(stream);
}

const struct program stream_program = {
    .name = "stream",
    .memory = true,
    .prepare = prepare,
    .run = run,
    .release = release,
};
