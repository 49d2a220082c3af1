/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The framebuffer as a log sink, for the short time between firmware and guest and for the report
 * of a fault.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "boot_info.h"
#include "console/log.h"

#define GLYPH_FIRST ' '
#define GLYPH_LAST '~'
#define GLYPH_HEIGHT_MAX 32

/* One bit per pixel: bit x of rows[c - GLYPH_FIRST][y] is pixel x from the left. If there are no
 * glyphs, the width is 0. */
struct glyphs {
    uint8_t width;  /* in pixels, at most 8 */
    uint8_t height; /* in pixels, at most GLYPH_HEIGHT_MAX */
    uint8_t rows[GLYPH_LAST - GLYPH_FIRST + 1][GLYPH_HEIGHT_MAX];
};

/* Returns the number of bytes of video memory that the screen shows, or 0 without a screen. */
static inline uint64_t framebuffer_bytes(const struct framebuffer *screen)
{
    return (uint64_t)screen->pixels_per_line * screen->height * sizeof(uint32_t);
}

/* Copies both structures and adds the sink. Returns false if there is no screen or no glyphs. Video
 * memory must be mapped to itself while the sink is in use. log.h declares the functions that stop
 * and restart the sink. */
bool framebuffer_start(const struct framebuffer *screen, const struct glyphs *glyphs);
/* Returns the video memory, which has to be mapped. Its size is 0 if framebuffer_start() started
 * nothing. */
struct range framebuffer_memory(void);
