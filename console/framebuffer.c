/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Shows text on the framebuffer from the end of boot services until the guest starts and owns the
 * screen, and once more for the report of a fault. The glyphs come from the firmware, see
 * boot/screen.c. Text starts at the top of the screen. After the last row, it goes on at the top.
 * Nothing is read back from video memory, because such reads are slow.
 */
#include "console/framebuffer.h"

#define SCREEN_END (1ULL << 47) /* 4-level page tables cannot identity-map a higher screen */

static struct {
    struct framebuffer screen;
    struct glyphs glyphs;
    uint32_t column; /* in characters */
    uint32_t row;    /* in characters */
    bool shown;
} console; /* without a screen, screen.base is 0 */

static volatile uint32_t *pixel_address(uint32_t x, uint32_t y)
{
    uint64_t offset = ((uint64_t)y * console.screen.pixels_per_line + x) * sizeof(uint32_t);
    return (volatile uint32_t *)(uintptr_t)(console.screen.base + offset);
}

static void clear_text_row(uint32_t row)
{
    uint32_t top = row * console.glyphs.height;
    for (uint32_t y = top; y < top + console.glyphs.height; y++)
        for (uint32_t x = 0; x < console.screen.width; x++)
            *pixel_address(x, y) = 0;
}

static void new_line(void)
{
    uint32_t rows = console.screen.height / console.glyphs.height;

    console.column = 0;
    console.row = (console.row + 1) % rows;
    clear_text_row(console.row);
}

static void draw_character(char c)
{
    const struct framebuffer *s = &console.screen;
    const uint32_t ink = s->red_mask | s->green_mask | s->blue_mask;
    const uint8_t *rows = console.glyphs.rows[c - GLYPH_FIRST];

    if ((console.column + 1) * console.glyphs.width > s->width)
        new_line();
    uint32_t left = console.column * console.glyphs.width;
    uint32_t top = console.row * console.glyphs.height;
    for (uint32_t y = 0; y < console.glyphs.height; y++)
        for (uint32_t x = 0; x < console.glyphs.width; x++)
            *pixel_address(left + x, top + y) = rows[y] >> x & 1 ? ink : 0;
    console.column++;
}

static void framebuffer_sink(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n')
            new_line();
        else if (text[i] >= GLYPH_FIRST && text[i] <= GLYPH_LAST)
            draw_character(text[i]);
    }
}

bool framebuffer_start(const struct framebuffer *screen, const struct glyphs *glyphs)
{
    if (screen->base == 0 || screen->base >= SCREEN_END ||
        screen->size < framebuffer_bytes(screen) || screen->pixels_per_line < screen->width ||
        glyphs->width == 0 || glyphs->height == 0 || screen->width < glyphs->width ||
        screen->height < glyphs->height)
        return false;
    console.screen = *screen;
    console.glyphs = *glyphs;
    framebuffer_restart();
    return true;
}

void framebuffer_stop(void)
{
    log_set_sink(LOG_FRAMEBUFFER, NULL);
    console.shown = false;
}

void framebuffer_restart(void)
{
    if (console.screen.base == 0 || console.shown)
        return;
    console.shown = true;
    console.column = console.row = 0;
    clear_text_row(0);
    log_set_sink(LOG_FRAMEBUFFER, framebuffer_sink);
}

struct range framebuffer_memory(void)
{
    return (struct range){console.screen.base, framebuffer_bytes(&console.screen)};
}
