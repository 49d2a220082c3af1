/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The firmware's text console as a log sink, and the firmware's font for use after firmware is
 * gone. (UEFI specification, "Simple Text Output Protocol" and "Font Protocol".)
 */
#include "boot/boot.h"

#include <string.h>

/* The log calls this function with a stack aligned to 8, but firmware wants it aligned to 16. */
__attribute__((force_align_arg_pointer)) void screen_sink(const char *text, size_t length)
{
    static CHAR16 line[2 * LOG_LINE + 1]; /* one call for all text, because firmware is slow */
    SIMPLE_TEXT_OUTPUT_INTERFACE *out = firmware.system->ConOut;
    size_t n = 0;

    if (out == NULL)
        return;
    for (size_t i = 0; i < length && i < LOG_LINE; i++) {
        if (text[i] == '\n')
            line[n++] = '\r';
        line[n++] = (CHAR16)text[i];
    }
    line[n] = 0;
    out->OutputString(out, line);
}

#define SECOND 10000000 /* in units of 100 ns */

void screen_wait_for_key(uint32_t seconds)
{
    SIMPLE_INPUT_INTERFACE *in = firmware.system->ConIn;
    EFI_EVENT events[2];
    struct framebuffer screen;
    EFI_INPUT_KEY key;
    UINTN which;

    platform_find_framebuffer(&screen);
    if (seconds == 0 || screen.base == 0 ||
        EFI_ERROR(firmware.services->CreateEvent(EVT_TIMER, 0, NULL, NULL, &events[0])))
        return;
    /* Stop firmware's watchdog. Otherwise it resets the machine after five minutes. */
    (void)firmware.services->SetWatchdogTimer(0, 0, 0, NULL);
    log_printf("a key, or %u seconds, and the boot goes on\n", seconds);
    if (in != NULL) {
        (void)in->Reset(in, FALSE); /* drop keys that were pressed before the wait */
        events[1] = in->WaitForKey;
    }
    if (!EFI_ERROR(firmware.services->SetTimer(events[0], TimerRelative, (UINT64)seconds * SECOND)))
        (void)firmware.services->WaitForEvent(in != NULL ? 2 : 1, events, &which);
    if (in != NULL)
        (void)in->ReadKeyStroke(in, &key);
    firmware.services->CloseEvent(events[0]);
}

/* The part of the font protocol that this file uses. GNU-EFI has no header for it. */
struct hii_image {
    UINT16 width;
    UINT16 height;
    EFI_GRAPHICS_OUTPUT_BLT_PIXEL *bitmap;
};
struct hii_font {
    void *string_to_image;
    void *string_id_to_image;
    EFI_STATUS(EFIAPI *get_glyph)(const struct hii_font *font, CHAR16 character,
                                  const void *string_info, struct hii_image **image,
                                  UINTN *baseline);
    void *get_font_info;
};
static EFI_GUID hii_font_guid = {
    0xe9ca4775, 0x8657, 0x47fc, {0x97, 0xe7, 0x7e, 0xd6, 0x5a, 0x08, 0x43, 0x24}};

/* Sets a bit for each pixel that differs from the background, which is the colour of the space
 * character's glyph. */
static void convert_glyph(const struct hii_image *image, EFI_GRAPHICS_OUTPUT_BLT_PIXEL background,
                          struct glyphs *glyphs, uint8_t *rows)
{
    for (uint32_t y = 0; y < image->height && y < glyphs->height; y++)
        for (uint32_t x = 0; x < image->width && x < glyphs->width; x++) {
            EFI_GRAPHICS_OUTPUT_BLT_PIXEL p = image->bitmap[y * image->width + x];
            if (p.Red != background.Red || p.Green != background.Green || p.Blue != background.Blue)
                rows[y] |= (uint8_t)(1u << x);
        }
}

void screen_read_glyphs(struct glyphs *glyphs)
{
    EFI_GRAPHICS_OUTPUT_BLT_PIXEL background = {0};
    struct hii_font *font;

    memset(glyphs, 0, sizeof(*glyphs));
    if (EFI_ERROR(firmware.services->LocateProtocol(&hii_font_guid, NULL, (void **)&font)))
        return;
    for (int c = GLYPH_FIRST; c <= GLYPH_LAST; c++) {
        struct hii_image *image = NULL;
        if (EFI_ERROR(font->get_glyph(font, (CHAR16)c, NULL, &image, NULL)) || image == NULL ||
            image->bitmap == NULL || image->width == 0 || image->height == 0) {
            glyphs->width = 0;
            return;
        }
        if (c == GLYPH_FIRST) {
            background = image->bitmap[0];
            glyphs->width = image->width < 8 ? (uint8_t)image->width : 8;
            glyphs->height = image->height < GLYPH_HEIGHT_MAX ? (uint8_t)image->height
                                                              : GLYPH_HEIGHT_MAX;
        }
        convert_glyph(image, background, glyphs, glyphs->rows[c - GLYPH_FIRST]);
        firmware.services->FreePool(image->bitmap);
        firmware.services->FreePool(image);
    }
}
