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
#define KIB 1024ULL
#define MIB (1024 * KIB)

/* ---- memory.c ---- */

enum place { PLACE_LOWEST, PLACE_HIGHEST };
#define BELOW_4G (1ULL << 32)

/* Allocates whole pages inside [least, limit), aligned, and remembers them. The first MiB is left to
 * firmware and the guest's real-mode code but for the trampoline. Gives the rounded size.
 * EFI_OUT_OF_RESOURCES where no free block is large enough. */
EFI_STATUS memory_allocate(EFI_MEMORY_TYPE type, uint64_t size, uint64_t alignment, uint64_t least,
                           uint64_t limit, enum place place, struct range *out);
/* Gives all of them back. */
void memory_free_all(void);
/* The largest free block of [least, limit) that starts at a multiple of `alignment`, in bytes. */
uint64_t memory_largest(uint64_t alignment, uint64_t least, uint64_t limit);
/* The end of the memory in the memory map, devices left out; 0 when there is no map to be had. */
uint64_t memory_top(void);
/* Allocates the buffer for the final memory map, with room for `spare` more descriptors. */
EFI_STATUS memory_map_reserve(struct efi_map *map, uint64_t *capacity, uint64_t spare);
/* Gets the memory map into that buffer. Allocates nothing. */
EFI_STATUS memory_map_get(struct efi_map *map, uint64_t capacity, UINTN *key);

/* ---- files.c ---- */

struct file {
    EFI_FILE_HANDLE handle;
    uint64_t size;
};

/* Opens a file on the volume that the image was loaded from; `path` as the user wrote it, `what`
 * ("kernel", "initrd", "configuration") for the refusal. */
bool file_open(const char *what, const char *path, struct file *file, struct refusal *r);
/* Reads the whole file to `buffer`, with a progress line when it is large, and closes it. */
bool file_read(const char *what, const char *path, struct file *file, void *buffer,
               struct refusal *r);
void file_close(struct file *file);
/* The image's own path on its volume; empty before the first file_open(). */
const uint16_t *files_image_path(void);
/* Gives the volume back, after the last file. */
void files_finish(void);

/* ---- platform.c ---- */

/* The RSDP's address by the configuration table, 0: none. */
uint64_t platform_rsdp(void);
void platform_framebuffer(struct framebuffer *fb);
/* True when the firmware's own text goes to the UART at this I/O port already. */
bool platform_console_uses(uint16_t port);

/* ---- screen.c ---- */

/* A log sink: the firmware's text console. */
void screen_sink(const char *text, size_t length);
/* The firmware's glyphs for ASCII, for the time after it; width 0 when it has none. */
void screen_glyphs(struct glyphs *glyphs);
