/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Declarations that the files of boot/ share. Only the files that include this header know UEFI's
 * types. Everything here needs boot services.
 */
#pragma once

#include <efi.h>

#include "console/framebuffer.h"

struct firmware {
    EFI_HANDLE image;
    EFI_SYSTEM_TABLE *system;
    EFI_BOOT_SERVICES *services;
    EFI_LOADED_IMAGE *loaded; /* the protocol that describes this image */
};
extern struct firmware firmware;

#define MAX_PATH_CHARACTERS 512
#define KIB 1024UL
#define MIB (1024 * KIB)

/* ---- memory.c ---- */

enum place {
    PLACE_LOWEST, /* the lowest aligned address that firmware gives */
    PLACE_ANY,    /* firmware chooses; the alignment is a page */
};
#define BELOW_4G (1ULL << 32)

/* The requirements for a block of memory. */
struct need {
    const char *what;   /* named in a refusal */
    const char *path;   /* named in a refusal; may be "" */
    uint64_t size;      /* bytes */
    uint64_t alignment; /* a power of two, at least a page */
    uint64_t least;     /* lowest allowed address */
    uint64_t limit;     /* first address after the allowed range */
};

/* Allocates whole pages and remembers them for memory_free_all(). out->size is the size rounded up
 * to whole pages. Callers leave the first MiB, except for the trampoline, to firmware and to the
 * guest's real-mode code. If no free block meets the need, fills *r and returns false. */
bool memory_allocate(struct range *out, EFI_MEMORY_TYPE type, const struct need *n,
                     enum place place, struct refusal *r);
/* Frees everything that memory_allocate() allocated. */
void memory_free_all(void);
/* Returns the first address of `size` bytes of free memory that is_it() accepts, or 0 if there is
 * none. Tries only addresses that lie `offset` above a multiple of `step`, and only memory below 4
 * GiB. The memory stays allocated until memory_free(). */
uint64_t memory_scan(uint64_t step, uint64_t offset, uint64_t size,
                     bool (*is_it)(uint64_t address));
void memory_free(uint64_t address, uint64_t size);
/* Returns the end of the memory in the memory map, devices excluded, or 0 if there is no map. */
uint64_t memory_top(void);
/* Allocates the buffer for the final memory map, with room for `spare` more descriptors. */
bool memory_map_reserve(struct efi_map *map, uint64_t *capacity, uint64_t spare, struct refusal *r);
/* Reads the memory map into the buffer from memory_map_reserve(). Allocates nothing. */
EFI_STATUS memory_map_get(struct efi_map *map, uint64_t capacity, UINTN *key);

/* ---- files.c ---- */

/* Reads a file from the image's own volume into memory below `limit`. If there is no room below
 * `limit`, uses memory below `high`. If `high` is 0, refuses the file instead. Shows a progress
 * line if the file is large. `path` is as the user wrote it. A refusal names `what` ("kernel",
 * "initrd", "configuration"). The range of an empty file has size 0. */
bool file_load(const char *what, const char *path, uint64_t limit, uint64_t high, struct range *out,
               struct refusal *r);
/* The image's own path on its volume; empty before the first file_load(). */
const uint16_t *files_image_path(void);
/* Writes the pieces to a new file, which replaces any file of that name. `path` has the same form
 * as for file_load(). Returns false if there is no volume, or if the file cannot be written. */
bool file_save(const char *path, const struct range *pieces, uint64_t count);
/* Closes the volume, after the last file. */
void files_close_volume(void);

/* ---- platform.c ---- */

/* Returns the RSDP's address from the configuration table, or 0 if there is none. */
uint64_t platform_find_rsdp(void);
void platform_find_framebuffer(struct framebuffer *fb);
/* Returns the size of a device path's node in bytes, or 0 if the node is damaged or is the last
 * one. */
uint64_t device_node_size(const EFI_DEVICE_PATH *node);
/* Returns true if the firmware's own text already goes to the UART at this I/O port. */
bool platform_console_uses_port(uint16_t port);

/* ---- last.c ---- */

/* Called when this start is refused. Writes the log of this start to a file beside the image. Needs
 * boot services. If the last run left a log, the file holds that log, and the log of this start is
 * not written. */
void save_refused_start_log(void);
/* If the last run did not end as its guest asked, writes the log that the run left to a file beside
 * the image, and logs a line about it. Call this function before this start allocates the memory
 * that holds the old log. */
void save_last_log(void);

/* ---- screen.c ---- */

/* If there is a screen, waits for a key, at most `seconds` seconds. */
void screen_wait_for_key(uint32_t seconds);

/* The log sink that writes to the firmware's text console. */
void screen_sink(const char *text, size_t length);
/* Copies the firmware's glyphs for ASCII, for use after firmware is gone. If firmware has no
 * glyphs, glyphs->width is 0. */
void screen_read_glyphs(struct glyphs *glyphs);
