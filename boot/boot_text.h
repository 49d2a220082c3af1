/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Text that firmware hands over: load options and paths. Pure; no UEFI type.
 */
#pragma once

#include <stdint.h>

#include "lib/refusal.h"

#define LOAD_OPTIONS_MAX 4096 /* characters of load options, terminator included */

/* Load options as firmware gives them (UEFI specification, "EFI_LOADED_IMAGE_PROTOCOL"): `bytes`
 * bytes of UTF-16, maybe terminated, maybe opened by the image's own name as the UEFI shell does,
 * which is left out; `image_path` is the image's path, for that. Writes ASCII, terminated, into
 * out[LOAD_OPTIONS_MAX]. Refuses what is too long or not ASCII; but what has neither text alone nor
 * any '=' is firmware's own mark, such as the GUID of a boot option that it made itself: *ignored
 * is true then, and `out` is empty. */
bool load_options_text(const void *load_options, uint64_t bytes, const uint16_t *image_path,
                       char *out, bool *ignored, struct refusal *r);

/* Appends a file path node's text, `count` characters of UTF-16 or fewer with a terminator, to a
 * path of at most `size` characters, with exactly one separator between the two: either side may
 * bring its own (UEFI specification, "File Path Media Device Path"). False: it does not fit. */
bool append_path(uint16_t *path, uint64_t size, const void *node, uint64_t count);

/* Joins the folder of the image ("\EFI\pmuvisor\pmuvisor.efi" or any path to a file) and a path of
 * the user's, which is absolute when it starts with a separator; / and \ both separate. Writes a
 * UEFI path, terminated, of at most size characters. False when it does not fit. */
bool join_path(const uint16_t *image_path, const char *path, uint16_t *out, uint64_t size);
