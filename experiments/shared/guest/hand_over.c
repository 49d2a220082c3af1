/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hand_over.c: see hand_over.h.
 */
#include "hand_over.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HAND_OVER 16u
#define CHUNK (256u << 10)

struct section {
    char name[16];
    uint64_t bytes;
};

static void hand_over(const void *data, size_t bytes)
{
    static char copy[CHUNK]; /* the emulator reads what is in memory, and no more */

    for (size_t at = 0; at < bytes; at += CHUNK) {
        uint32_t part = (uint32_t)(bytes - at < CHUNK ? bytes - at : CHUNK);

        memcpy(copy, (const char *)data + at, part);
        __asm__ volatile("xchg %%bx, %%bx" : : "a"(part), "c"(HAND_OVER), "d"(copy) : "memory");
    }
}

void hand_over_section(const char *name, const void *data, size_t bytes)
{
    struct section section = {.bytes = bytes};

    strncpy(section.name, name, sizeof(section.name) - 1);
    hand_over(&section, sizeof(section));
    hand_over(data, bytes);
}

static bool refused(const char *path)
{
    printf("hand_over: error=\"%s: %s\"\n", path, strerror(errno));
    return false;
}

bool hand_over_file(const char *name, const char *path)
{
    char *text = NULL;
    size_t length = 0, room = 0, got = 1;
    FILE *file = fopen(path, "re");
    bool good = true;

    if (file == NULL)
        return refused(path);
    while (good && got > 0) {
        if (room - length < CHUNK) {
            char *larger = realloc(text, room += 4 * CHUNK);
            good = larger != NULL;
            if (!good)
                break;
            text = larger;
        }
        got = fread(text + length, 1, room - length, file);
        length += got;
    }
    good = good && !ferror(file);
    if (good)
        hand_over_section(name, text, length);
    else
        refused(path);
    fclose(file);
    free(text);
    return good;
}
