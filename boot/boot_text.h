/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Converts text from firmware: load options and paths. Pure. Uses no UEFI type.
 */
#pragma once

#include <stdint.h>

#include "lib/refusal.h"

#define LOAD_OPTIONS_MAX 4096 /* characters of load options, terminator included */

/* Converts firmware's load options (UEFI specification, "EFI_LOADED_IMAGE_PROTOCOL") to terminated
 * ASCII in out[LOAD_OPTIONS_MAX]. The load options are `bytes` bytes of UTF-16, with or without a
 * terminator. The UEFI shell puts the image's own name first. This function recognises the name by
 * `image_path` and leaves the name out.
 *
 * Load options that are not all text and contain no '=' come from firmware itself. An example is
 * the GUID of a boot option that firmware made. For these, *ignored is true and `out` is empty.
 * Other load options are refused if they are too long or not ASCII. */
bool load_options_to_text(const void *load_options, uint64_t bytes, const uint16_t *image_path,
                          char *out, bool *ignored, struct refusal *r);

/* Appends a file path node's text to a path of at most `size` characters. The text has `count`
 * characters of UTF-16, or fewer characters and a terminator. Puts exactly one separator between
 * path and text. The path may already end in a separator, and the text may already begin with one
 * (UEFI specification, "File Path Media Device Path"). Returns false if the result does not fit. */
bool append_path(uint16_t *path, uint64_t size, const void *node, uint64_t count);

/* Joins the folder of the image and the user's path. `image_path` is "\EFI\pmuvisor\pmuvisor.efi"
 * or any path to a file. The user's path is absolute if it starts with a separator. Both / and \
 * are separators. Writes a terminated UEFI path of at most `size` characters. Returns false if the
 * result does not fit. */
bool join_path(const uint16_t *image_path, const char *path, uint16_t *out, uint64_t size);
