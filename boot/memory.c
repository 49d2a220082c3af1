/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Allocates pages from firmware at chosen places and remembers them all, so that a refusal can free
 * them. Reads the memory map. (UEFI specification, "Memory Allocation Services".)
 */
#include "boot/boot.h"
#include "lib/refusal.h"

#define ALLOCATIONS_MAX 10
#define SNAPSHOT_SPARE 8 /* descriptors: allocating the buffer itself splits some */
#define SNAPSHOT_TRIES 8 /* other code may add more descriptors than are spare */
#define PLACES_MAX 4096  /* tried for one need */
#define PATIENCE 8       /* refusals in a block before the steps become longer */

static struct range allocations[ALLOCATIONS_MAX];

/* ---- the memory map ---- */

EFI_STATUS memory_map_get(struct efi_map *map, uint64_t capacity, UINTN *key)
{
    UINTN size = capacity, stride;
    UINT32 version;
    EFI_STATUS status = firmware.services->GetMemoryMap(&size, map->entries, key, &stride,
                                                        &version);

    if (EFI_ERROR(status))
        return status;
    map->size = size;
    map->descriptor_size = stride;
    map->descriptor_version = version;
    map->system_table = (uintptr_t)firmware.system;
    return EFI_SUCCESS;
}

/* Gets the current size of the map in bytes, and its stride. */
static bool map_size(UINTN *size, UINTN *stride)
{
    UINTN key;
    UINT32 version;

    *size = 0;
    return firmware.services->GetMemoryMap(size, NULL, &key, stride, &version) ==
           EFI_BUFFER_TOO_SMALL;
}

/* Reads the current map into memory that the caller frees (FreePool). */
static bool snapshot(struct efi_map *map)
{
    UINTN size, stride, key;

    for (int attempt = 0; attempt < SNAPSHOT_TRIES && map_size(&size, &stride); attempt++) {
        size += SNAPSHOT_SPARE * stride;
        if (EFI_ERROR(firmware.services->AllocatePool(EfiLoaderData, size, &map->entries)))
            return false;
        if (!EFI_ERROR(memory_map_get(map, size, &key)))
            return true;
        firmware.services->FreePool(map->entries);
    }
    return false;
}

struct survey {
    uint64_t top;     /* the end of the memory in the map, devices excluded */
    uint64_t largest; /* size in bytes of the largest free block within the need's bounds */
    bool fits;        /* some such block is large enough */
    uint64_t at;      /* the lowest or highest address that fits, as asked */
    uint64_t further; /* bytes from `at` to the last address that fits in the same block */
};

/* Looks through the current map once. Returns false if there is no map. */
static bool survey(const struct need *n, enum place place, struct survey *out)
{
    struct efi_map map;

    *out = (struct survey){0};
    if (!snapshot(&map))
        return false;
    for (uint64_t at = 0; at < map.size; at += map.descriptor_size) {
        const EFI_MEMORY_DESCRIPTOR *d = (const void *)((const uint8_t *)map.entries + at);
        uint64_t start = d->PhysicalStart, end = start + d->NumberOfPages * PAGE_SIZE;

        if (d->Type != EfiMemoryMappedIO && d->Type != EfiMemoryMappedIOPortSpace && end > out->top)
            out->top = end;
        start = ((start > n->least ? start : n->least) + n->alignment - 1) & ~(n->alignment - 1);
        end = end < n->limit ? end : n->limit;
        if (d->Type != EfiConventionalMemory || start >= end)
            continue;
        if (end - start > out->largest)
            out->largest = end - start;
        if (end - start < n->size)
            continue;
        uint64_t highest = (end - n->size) & ~(n->alignment - 1);
        if (!out->fits || (place == PLACE_LOWEST ? start < out->at : highest > out->at)) {
            out->at = place == PLACE_LOWEST ? start : highest;
            out->further = highest - start;
        }
        out->fits = true;
    }
    firmware.services->FreePool(map.entries);
    return true;
}

/* Allocates the memory at `address`, and keeps it if is_it() accepts it. Allocates first, because
 * firmware may guard memory that nobody has allocated. */
static bool take_if(uint64_t address, uint64_t size, bool (*is_it)(uint64_t address))
{
    EFI_PHYSICAL_ADDRESS at = address;

    if (EFI_ERROR(firmware.services->AllocatePages(AllocateAddress, EfiLoaderData,
                                                   EFI_SIZE_TO_PAGES(size), &at)))
        return false;
    if (is_it(address))
        return true;
    memory_give_back(address, size);
    return false;
}

void memory_give_back(uint64_t address, uint64_t size)
{
    firmware.services->FreePages(address, EFI_SIZE_TO_PAGES(size));
}

uint64_t memory_find(uint64_t step, uint64_t offset, uint64_t size, bool (*is_it)(uint64_t address))
{
    struct efi_map map;
    uint64_t found = 0;

    if (!snapshot(&map))
        return 0;
    for (uint64_t at = 0; at < map.size; at += map.descriptor_size) {
        const EFI_MEMORY_DESCRIPTOR *d = (const void *)((const uint8_t *)map.entries + at);
        uint64_t end = d->PhysicalStart + d->NumberOfPages * PAGE_SIZE;
        uint64_t address = (d->PhysicalStart + step - 1) / step * step + offset;

        if (d->Type != EfiConventionalMemory)
            continue;
        for (; found == 0 && address + size <= end && address + size <= BELOW_4G; address += step)
            found = take_if(address, size, is_it) ? address : 0;
    }
    firmware.services->FreePool(map.entries);
    return found;
}

uint64_t memory_top(void)
{
    const struct need any = {.alignment = 1};
    struct survey s;

    return survey(&any, PLACE_LOWEST, &s) ? s.top : 0;
}

bool memory_map_reserve(struct efi_map *map, uint64_t *capacity, uint64_t spare, struct refusal *r)
{
    struct need need = {"memory for the memory map", "", PAGE_SIZE, PAGE_SIZE, MIB, BELOW_4G};
    UINTN size = 0, stride = 0;
    struct range buffer = {0};

    if (map_size(&size, &stride))
        need.size = size + spare * stride;
    if (!memory_allocate(&buffer, EfiLoaderData, &need, PLACE_HIGHEST, r))
        return false;
    map->entries = (void *)(uintptr_t)buffer.base;
    map->descriptor_size = stride;
    *capacity = buffer.size;
    return true;
}

/* ---- pages ---- */

/* A map may list memory as free that firmware does not give. EDK II does so if a free block reaches
 * from one of its bins, each for certain types, into the next bin. So this function asks for one
 * place after another until firmware gives one. It reads the map again before each place, because
 * other code may allocate, too. The steps in a block become longer, up to an eighth of the distance
 * covered in the block: a block that is refused as a whole costs few calls. */
static bool search(struct range *out, EFI_MEMORY_TYPE type, struct need rest, enum place place,
                   uint64_t *tried, EFI_STATUS *status)
{
    uint64_t step = rest.alignment, refused = 0;
    struct survey s;

    for (; *tried < PLACES_MAX && survey(&rest, place, &s) && s.fits; ++*tried) {
        EFI_PHYSICAL_ADDRESS at = s.at;
        uint64_t way = step;

        *status = firmware.services->AllocatePages(AllocateAddress, type, rest.size / PAGE_SIZE,
                                                   &at);
        if (!EFI_ERROR(*status)) {
            *out = (struct range){at, rest.size};
            return true;
        }
        if (step > s.further) { /* go on with the next block */
            way = s.further + rest.alignment;
            step = rest.alignment;
            refused = 0;
        } else if (++refused % PATIENCE == 0) {
            step *= 2;
        }
        if (place == PLACE_LOWEST)
            rest.least = s.at + way;
        else
            rest.limit = s.at - way + rest.size;
    }
    return false;
}

static bool refuse_need(const struct need *n, uint64_t tried, EFI_STATUS status, struct refusal *r)
{
    struct survey s;
    char found[96];

    survey(n, PLACE_LOWEST, &s);
    if (tried == 0)
        format_text(found, sizeof(found), "%lu KiB as the largest free block", s.largest / KIB);
    else
        format_text(found, sizeof(found),
                    "that firmware gave none of %lu places tried (EFI status "
                    "0x%lx)",
                    tried, status);
    return refuse(r, REFUSE_NO_MEMORY,
                  "%s%s%s: found %s from 0x%lx to 0x%lx aligned to %lu KiB, wanted %lu KiB; %s a "
                  "machine with more memory, a smaller file or options that take less",
                  n->what, n->path[0] == '\0' ? "" : " ", n->path, found, n->least, n->limit - 1,
                  n->alignment / KIB, (n->size + KIB - 1) / KIB,
                  tried == 0 ? "use" : "update the firmware, or use");
}

bool memory_allocate(struct range *out, EFI_MEMORY_TYPE type, const struct need *n,
                     enum place place, struct refusal *r)
{
    struct need whole = *n;
    EFI_STATUS status = EFI_SUCCESS;
    uint64_t slot = 0, tried = 0;

    whole.size = (n->size + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
    while (slot < ALLOCATIONS_MAX && allocations[slot].size != 0)
        slot++;
    if (slot == ALLOCATIONS_MAX || whole.size < n->size || whole.size == 0 ||
        !search(out, type, whole, place, &tried, &status))
        return refuse_need(n, tried, status, r);
    allocations[slot] = *out;
    return true;
}

void memory_free_all(void)
{
    for (uint64_t i = 0; i < ALLOCATIONS_MAX; i++) {
        if (allocations[i].size != 0)
            firmware.services->FreePages(allocations[i].base, allocations[i].size / PAGE_SIZE);
        allocations[i].size = 0;
    }
}
