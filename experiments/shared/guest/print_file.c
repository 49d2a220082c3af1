/* SPDX-License-Identifier: BSD-2-Clause
 *
 * print_file.c: see print_file.h.
 */
#include "print_file.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 54 /* of the file: 72 characters */

static void print_line(const uint8_t *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[LINE_BYTES / 3 * 4 + 1], *to = text;

    for (size_t at = 0; at < count; at += 3) {
        size_t left = count - at;
        uint32_t word = (uint32_t)bytes[at] << 16 | (left > 1 ? (uint32_t)bytes[at + 1] << 8 : 0) |
                        (left > 2 ? bytes[at + 2] : 0);

        *to++ = digits[word >> 18];
        *to++ = digits[word >> 12 & 63];
        *to++ = left > 1 ? digits[word >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[word & 63] : '=';
    }
    *to = '\0';
    puts(text);
}

static bool refused(const char *path)
{
    printf("print_file: error=\"%s: %s\"\n", path, strerror(errno));
    fflush(stdout);
    return false;
}

bool print_file(const char *name, const char *path)
{
    uint8_t bytes[LINE_BYTES];
    size_t got, length = 0;
    FILE *file = fopen(path, "re");

    printf("print_file: begin %s\n", name);
    if (file == NULL)
        return refused(path);
    while ((got = fread(bytes, 1, sizeof(bytes), file)) > 0) {
        print_line(bytes, got);
        length += got;
    }
    bool good = !ferror(file) || refused(path);
    if (good)
        printf("print_file: end %s %zu\n", name, length);
    fflush(stdout);
    fclose(file);
    return good;
}
