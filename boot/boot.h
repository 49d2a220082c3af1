/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the files of boot/ share. The only place, with the files that include it, where UEFI's types
 * are known. Everything here needs boot services.
 */
#pragma once

#include <efi.h>

#include "console/framebuffer.h"

struct firmware {
    EFI_HANDLE image;
    EFI_SYSTEM_TABLE *system;
    EFI_BOOT_SERVICES *services;
    EFI_LOADED_IMAGE *loaded; /* this image */
};
extern struct firmware firmware;

#define MAX_PATH_CHARACTERS 512
#define KIB 1024UL
#define MIB (1024 * KIB)

/* ---- memory.c ---- */

enum place { PLACE_LOWEST, PLACE_HIGHEST };
#define BELOW_4G (1ULL << 32)

/* What a block of memory has to be. */
struct need {
    const char *what, *path; /* for the refusal; the latter may be "" */
    uint64_t size, alignment;
    uint64_t least, limit; /* addresses, the second exclusive */
};

/* Allocates whole pages and remembers them. The first MiB is left to firmware and the guest's
 * real-mode code but for the trampoline. Gives the rounded size. False: no free block will do. */
bool memory_allocate(struct range *out, EFI_MEMORY_TYPE type, const struct need *n,
                     enum place place, struct refusal *r);
/* Gives all of them back. */
void memory_free_all(void);
/* The first address below 4 GiB, `offset` above a multiple of `step`, where `size` bytes of free
 * memory are what is_it() looks for; 0: none. They are allocated then, until memory_give_back(). */
uint64_t memory_find(uint64_t step, uint64_t offset, uint64_t size,
                     bool (*is_it)(uint64_t address));
void memory_give_back(uint64_t address, uint64_t size);
/* The end of the memory in the memory map, devices left out; 0 when there is no map to be had. */
uint64_t memory_top(void);
/* Allocates the buffer for the final memory map, with room for `spare` more descriptors. */
bool memory_map_reserve(struct efi_map *map, uint64_t *capacity, uint64_t spare, struct refusal *r);
/* Gets the memory map into that buffer. Allocates nothing. */
EFI_STATUS memory_map_get(struct efi_map *map, uint64_t capacity, UINTN *key);

/* ---- files.c ---- */

/* Reads a file of the volume that the image was loaded from, with a progress line when it is large,
 * to memory below `limit`, or, where that is full, below `high` (0: refused then). `path` as the
 * user wrote it, `what` ("kernel", "initrd", "configuration") for the refusal. An empty file is a
 * range of size 0. */
bool file_load(const char *what, const char *path, uint64_t limit, uint64_t high, struct range *out,
               struct refusal *r);
/* The image's own path on its volume; empty before the first file_load(). */
const uint16_t *files_image_path(void);
/* Writes these pieces as a new file, in the place of one of that name. `path` as above. False: the
 * volume does not let it, or there is none. */
bool file_save(const char *path, const struct range *pieces, uint64_t count);
/* Gives the volume back, after the last file. */
void files_finish(void);

/* ---- platform.c ---- */

/* The RSDP's address by the configuration table, 0: none. */
uint64_t platform_rsdp(void);
void platform_framebuffer(struct framebuffer *fb);
/* The bytes of a device path's node; 0: it is the last one, or damaged. */
uint64_t device_node_size(const void *node);
/* True when the firmware's own text goes to the UART at this I/O port already. */
bool platform_console_uses(uint16_t port);

/* ---- last.c ---- */

/* Writes the log of this start, which is refused, to that file, unless it has what a crash left.
 * Under boot services. */
void last_refused(void);
/* Writes what the last start left, if it did not end as its guest asked for, to a file beside the
 * image, and says so. Before anything of this one takes the memory in which it lies. */
void last_save(void);

/* ---- screen.c ---- */

/* Where there is a screen: waits for a key, so many seconds at most. */
void screen_wait(uint32_t seconds);

/* A log sink: the firmware's text console. */
void screen_sink(const char *text, size_t length);
/* The firmware's glyphs for ASCII, for the time after it; width 0 when it has none. */
void screen_glyphs(struct glyphs *glyphs);
