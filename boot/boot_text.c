/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Converts load options and paths from firmware's UTF-16 to ASCII and back. Pure.
 */
#include "boot/boot_text.h"

#include <string.h>

#define IMAGE_SUFFIX ".efi"

/* Firmware treats load options as bytes, so their address may be odd. */
static uint16_t read_character(const void *text, uint64_t index)
{
    const unsigned char *bytes = (const unsigned char *)text + 2 * index;
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static char to_lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

static bool is_separator(uint16_t c) { return c == '\\' || c == '/' || c == ':'; }

static bool has_suffix(const char *word, uint64_t length)
{
    const uint64_t suffix = sizeof(IMAGE_SUFFIX) - 1;
    uint64_t same = 0;

    while (length >= suffix && same < suffix &&
           to_lower(word[length - suffix + same]) == IMAGE_SUFFIX[same])
        same++;
    return same == suffix;
}

/* Returns the part of a path after its folders. */
static const uint16_t *file_name(const uint16_t *path)
{
    const uint16_t *name = path;

    for (; *path != 0; path++)
        if (is_separator(*path))
            name = path + 1;
    return name;
}

/* Returns true if the word is the image's name without its suffix: in the UEFI shell, the command
 * "pmuvisor" starts pmuvisor.efi, too. */
static bool is_image_name(const char *word, uint64_t length, const uint16_t *image_path)
{
    const uint16_t *name = file_name(image_path);
    uint64_t start = length;

    while (start > 0 && !is_separator((unsigned char)word[start - 1]))
        start--;
    for (; start < length; start++, name++)
        if (*name > '~' || to_lower((char)*name) != to_lower(word[start]))
            return false;
    return *name == '.' && length > 0;
}

/* Returns the length of the image's own name at the start of the text. Returns 0 if the first word
 * is not the image's name. A word that contains '=' is an option. */
static uint64_t image_name_length(const char *text, const uint16_t *image_path)
{
    char closing = text[0] == '"' ? '"' : ' ';
    uint64_t start = text[0] == '"' ? 1 : 0, end = start;

    for (; text[end] != '\0' && text[end] != closing; end++)
        if (text[end] == '=')
            return 0;
    if (!has_suffix(text + start, end - start) &&
        !is_image_name(text + start, end - start, image_path))
        return 0;
    return text[end] == '"' ? end + 1 : end;
}

static bool is_printable(uint16_t c) { return (c >= ' ' || c == '\t') && c <= '~'; }

bool load_options_to_text(const void *load_options, uint64_t bytes, const uint16_t *image_path,
                          char *out, bool *ignored, struct refusal *r)
{
    uint64_t count = load_options == NULL ? 0 : bytes / 2, length = 0;
    bool text = true, option = false;

    for (; length < count && read_character(load_options, length) != 0; length++) {
        text &= is_printable(read_character(load_options, length));
        option |= read_character(load_options, length) == '=';
    }
    out[0] = '\0';
    *ignored = !text && !option;
    if (*ignored)
        return true;
    if (length >= LOAD_OPTIONS_MAX)
        return refuse(r, REFUSE_BAD_OPTION,
                      "load options: found %lu characters, wanted at most %u; move some to "
                      "pmuvisor.cfg",
                      length, LOAD_OPTIONS_MAX - 1);
    for (uint64_t i = 0; i < length; i++) {
        uint16_t c = read_character(load_options, i);
        if (!is_printable(c))
            return refuse(r, REFUSE_BAD_OPTION,
                          "load options: found character 0x%x at position %lu, wanted printable "
                          "ASCII; write them as plain text",
                          c, i);
        out[i] = (char)c;
    }
    out[length] = '\0';

    uint64_t skip = image_name_length(out, image_path);
    memmove(out, out + skip, length + 1 - skip);
    return true;
}

bool append_path(uint16_t *path, uint64_t size, const void *node, uint64_t count)
{
    uint64_t n = 0, i = 0;

    while (path[n] != 0)
        n++;
    bool ends = n > 0 && (path[n - 1] == '\\' || path[n - 1] == '/');
    bool begins = count > 0 && (read_character(node, 0) == '\\' || read_character(node, 0) == '/');
    if (ends && begins)
        i = 1;
    else if (n > 0 && !ends && !begins && n + 1 < size)
        path[n++] = '\\';
    for (; i < count && read_character(node, i) != 0 && n + 1 < size; i++)
        path[n++] = read_character(node, i);
    path[n] = 0;
    return i == count || read_character(node, i) == 0;
}

bool join_path(const uint16_t *image_path, const char *path, uint16_t *out, uint64_t size)
{
    bool absolute = path[0] == '/' || path[0] == '\\';
    uint64_t n = absolute ? 0 : (uint64_t)(file_name(image_path) - image_path);

    if (n + strlen(path) >= size)
        return false;
    memcpy(out, image_path, n * sizeof(*out));
    for (; *path != '\0'; path++)
        out[n++] = *path == '/' ? '\\' : (uint16_t)*path;
    out[n] = 0;
    return true;
}
