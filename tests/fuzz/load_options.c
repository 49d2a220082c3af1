/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fuzz target: load options and paths as firmware hands them over, then the option parser on them.
 * Input: how long the image's path is, that path, how the rest is used, the rest.
 */
#include "boot/boot_text.h"
#include "fuzz.h"
#include "lib/refusal.h"
#include "options.h"

#define PATH_MAX_CHARACTERS 64
#define ODD_ADDRESS 1

static void check_load_options(const uint8_t *bytes, size_t size, const uint16_t *image_path)
{
    /* At an odd address, as firmware may have it; the end is where malloc's is. */
    uint8_t *copy = malloc(size + ODD_ADDRESS);
    char *out = malloc(LOAD_OPTIONS_MAX);
    struct refusal r = {.kind = REFUSE_NO_MEMORY};
    struct options o;
    bool ignored;

    CHECK(copy != NULL && out != NULL, "%zu bytes", size);
    memset(out, '?', LOAD_OPTIONS_MAX);
    if (size != 0)
        memcpy(copy + ODD_ADDRESS, bytes, size);
    if (load_options_to_text(copy + ODD_ADDRESS, size, image_path, out, &ignored, &r)) {
        size_t length = strnlen(out, LOAD_OPTIONS_MAX), characters = 0;
        CHECK(length < LOAD_OPTIONS_MAX, "no end");
        while (characters < size / 2 && (bytes[2 * characters] | bytes[2 * characters + 1]) != 0)
            characters++;
        /* What is left is the end of what was there. */
        CHECK(length <= characters, "%zu of %zu", length, characters);
        CHECK(!ignored || length == 0, "%zu characters of what was ignored", length);
        for (size_t i = 0; i < characters && ignored; i++)
            CHECK(bytes[2 * i] != '=' || bytes[2 * i + 1] != 0, "an option was ignored");
        for (size_t i = 0; i < length; i++)
            CHECK((uint8_t)out[i] == bytes[2 * (characters - length + i)], "character %zu", i);
        options_default(&o);
        if (!options_parse(&o, out, length, "load options", &r))
            check_refusal(&r, "load options: ");
    } else {
        CHECK(r.kind == REFUSE_BAD_OPTION, "kind %d", r.kind);
        check_refusal(&r, "load options: ");
    }
    free(copy);
    free(out);
}

static uint64_t length_of(const uint16_t *path, uint64_t size)
{
    uint64_t n = 0;

    while (n < size && path[n] != 0)
        n++;
    CHECK(n < size, "no end within %lu", (unsigned long)size);
    return n;
}

static void check_append(const uint8_t *bytes, size_t size, const uint16_t *start, uint64_t room)
{
    uint16_t *path = malloc(room * sizeof(*path));
    uint8_t *node = exactly(bytes, size);
    uint64_t before = 0, count = size / 2;

    CHECK(path != NULL, "%lu", (unsigned long)room);
    for (; start[before] != 0 && before + 1 < room; before++)
        path[before] = start[before];
    path[before] = 0;
    bool fits = append_path(path, room, node, count);
    uint64_t after = length_of(path, room);
    CHECK(after >= before, "%lu of %lu", (unsigned long)after, (unsigned long)before);
    CHECK(memcmp(path, start, before * sizeof(*path)) == 0, "the start changed");
    CHECK(!fits || after <= before + count + 1, "%lu", (unsigned long)after);
    /* All of the node is there, but for a separator that both sides bring. */
    uint64_t characters = 0;
    while (characters < count && (node[2 * characters] | node[2 * characters + 1]) != 0)
        characters++;
    CHECK(!fits || after + 1 >= before + characters, "%lu of %lu", (unsigned long)after,
          (unsigned long)(before + characters));
    free(path);
    free(node);
}

static void check_join(const uint8_t *bytes, size_t size, const uint16_t *image_path, uint64_t room)
{
    uint16_t *out = malloc((room != 0 ? room : 1) * sizeof(*out));
    char *path = malloc(size + 1);

    CHECK(out != NULL && path != NULL, "%lu", (unsigned long)room);
    if (size != 0)
        memcpy(path, bytes, size);
    path[size] = '\0';
    if (join_path(image_path, path, out, room)) {
        uint64_t length = length_of(out, room), given = strlen(path);
        CHECK(length >= given, "%lu of %lu", (unsigned long)length, (unsigned long)given);
        for (uint64_t i = 0; i < given; i++)
            CHECK(out[length - given + i] != '/', "character %lu", (unsigned long)i);
    }
    free(out);
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint64_t length = take_u8(&in) % PATH_MAX_CHARACTERS;
    uint16_t *image_path = calloc(length + 1, sizeof(*image_path));

    CHECK(image_path != NULL, "%lu", (unsigned long)length);
    take(&in, image_path, length * sizeof(*image_path));
    uint8_t use = take_u8(&in), room = take_u8(&in);
    switch (use % 3) {
    case 0:
        check_load_options(in.data, in.left, image_path);
        break;
    case 1:
        check_append(in.data, in.left, image_path, room + 1);
        break;
    default:
        check_join(in.data, in.left, image_path, room);
        break;
    }
    free(image_path);
    return 0;
}
