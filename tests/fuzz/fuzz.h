/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the fuzz targets share: the input as a stream, and checks that end the process with a line.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/refusal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* libFuzzer keeps the input of a process that aborts. */
#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: wanted %s: ", __FILE__, __LINE__, #condition);                 \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct input {
    const uint8_t *data;
    size_t left;
};

/* Copies up to `count` bytes; what the input does not have is 0. */
static inline void take(struct input *in, void *out, size_t count)
{
    size_t there = count < in->left ? count : in->left;

    memset(out, 0, count);
    if (there > 0)
        memcpy(out, in->data, there);
    in->data += there;
    in->left -= there;
}

#define TAKE(name, type)                                                                           \
    static inline type name(struct input *in)                                                      \
    {                                                                                              \
        type value;                                                                                \
        take(in, &value, sizeof(value));                                                           \
        return value;                                                                              \
    }
TAKE(take_u8, uint8_t)
TAKE(take_u16, uint16_t)
TAKE(take_u32, uint32_t)
TAKE(take_u64, uint64_t)

/* Memory of exactly that size, so that AddressSanitizer sees what lies beyond; the caller frees. */
static inline void *exactly(const void *from, size_t size)
{
    void *copy = malloc(size != 0 ? size : 1);

    CHECK(copy != NULL, "%zu bytes", size);
    if (size != 0)
        memcpy(copy, from, size);
    return copy;
}

/* A refusal is one line of plain text that begins with what it is about. */
static inline void check_refusal(const struct refusal *r, const char *begins)
{
    size_t length = strnlen(r->line, sizeof(r->line));

    CHECK(length < sizeof(r->line), "no end");
    CHECK(strncmp(r->line, begins, strlen(begins)) == 0, "%s", r->line);
    for (size_t i = 0; i < length; i++)
        CHECK((r->line[i] >= ' ' && r->line[i] <= '~') || r->line[i] == '\t', "%s", r->line);
}
