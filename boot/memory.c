/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Allocates pages from firmware at chosen places and remembers them all, so that a refusal can free
 * them. Reads the memory map. (UEFI specification, "Memory Allocation Services".)
 */
#include "bits.h"
#include "boot/boot.h"
#include "lib/refusal.h"

#define ALLOCATIONS_MAX 10
#define SNAPSHOT_SPARE 8 /* spare descriptors, because allocating the buffer may split one */
#define SNAPSHOT_TRIES 8 /* tries, because other code may add descriptors in between */

static struct range allocations[ALLOCATIONS_MAX];
static uint64_t allocated; /* entries of allocations[] in use */

/* ---- the memory map ---- */

EFI_STATUS memory_map_get(struct efi_map *map, uint64_t capacity, UINTN *key)
{
    map->size = capacity;
    map->system_table = (uintptr_t)firmware.system;
    return firmware.services->GetMemoryMap(&map->size, map->entries, key, &map->descriptor_size,
                                           &map->descriptor_version);
}

/* Returns the number of bytes that the current map and `spare` more descriptors take. Fills *map
 * except for the entries. */
static uint64_t get_memory_map_size(struct efi_map *map, uint64_t spare)
{
    UINTN key;

    *map = (struct efi_map){0};
    (void)memory_map_get(map, 0, &key); /* fails, but stores both sizes */
    return map->size + spare * map->descriptor_size;
}

/* Reads the current map into memory that the caller frees (FreePool). */
static bool copy_memory_map(struct efi_map *map)
{
    UINTN key;

    for (int attempt = 0; attempt < SNAPSHOT_TRIES; attempt++) {
        uint64_t size = get_memory_map_size(map, SNAPSHOT_SPARE);
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
};

/* Reads the current map once. If the map cannot be read, both results are 0. */
static struct survey survey_memory_map(const struct need *n)
{
    struct survey found = {0};
    struct efi_map map;

    if (!copy_memory_map(&map))
        return found;
    for (uint64_t at = 0; at < map.size; at += map.descriptor_size) {
        const EFI_MEMORY_DESCRIPTOR *d = (const void *)((const uint8_t *)map.entries + at);
        uint64_t start = d->PhysicalStart, end = start + d->NumberOfPages * PAGE_SIZE;

        if (d->Type != EfiMemoryMappedIO && d->Type != EfiMemoryMappedIOPortSpace &&
            end > found.top)
            found.top = end;
        start = align_up(start > n->least ? start : n->least, n->alignment);
        end = end < n->limit ? end : n->limit;
        if (d->Type == EfiConventionalMemory && start < end && end - start > found.largest)
            found.largest = end - start;
    }
    firmware.services->FreePool(map.entries);
    return found;
}

uint64_t memory_top(void) { return survey_memory_map(&(struct need){.alignment = 1}).top; }

bool memory_map_reserve(struct efi_map *map, uint64_t *capacity, uint64_t spare, struct refusal *r)
{
    const struct need need = {
        "memory for the memory map", "", get_memory_map_size(map, spare), PAGE_SIZE, MIB, BELOW_4G};
    struct range buffer = {0};

    if (!memory_allocate(&buffer, EfiLoaderData, &need, PLACE_ANY, r))
        return false;
    map->entries = (void *)(uintptr_t)buffer.base;
    *capacity = buffer.size;
    return true;
}

/* ---- pages ---- */

void memory_free(uint64_t address, uint64_t size)
{
    firmware.services->FreePages(address, EFI_SIZE_TO_PAGES(size));
}

/* Lets firmware choose the place, because the memory map may list memory as free that firmware
 * refuses to allocate. EDK II has bins, each for certain memory types. If a free block reaches from
 * one bin into the next, EDK II lists such memory. */
static EFI_STATUS allocate_anywhere(EFI_MEMORY_TYPE type, const struct need *n,
                                    EFI_PHYSICAL_ADDRESS *at)
{
    *at = n->limit - 1;
    EFI_STATUS status = firmware.services->AllocatePages(AllocateMaxAddress, type,
                                                         EFI_SIZE_TO_PAGES(n->size), at);

    if (EFI_ERROR(status) || *at >= n->least)
        return status;
    memory_free(*at, n->size);
    return EFI_NOT_FOUND;
}

/* Allocates the pages at `address`. */
static EFI_STATUS allocate_at(EFI_MEMORY_TYPE type, EFI_PHYSICAL_ADDRESS address, uint64_t size)
{
    return firmware.services->AllocatePages(AllocateAddress, type, EFI_SIZE_TO_PAGES(size),
                                            &address);
}

/* Tries one aligned place after another, until firmware gives one. */
static EFI_STATUS allocate_at_lowest_address(EFI_MEMORY_TYPE type, const struct need *n,
                                             EFI_PHYSICAL_ADDRESS *at)
{
    EFI_STATUS status = EFI_NOT_FOUND;

    for (*at = align_up(n->least, n->alignment); *at + n->size <= n->limit; *at += n->alignment) {
        status = allocate_at(type, *at, n->size);
        if (!EFI_ERROR(status))
            break;
    }
    return status;
}

/* Allocates memory before is_it() reads it, because firmware may guard unallocated memory. */
uint64_t memory_scan(uint64_t step, uint64_t offset, uint64_t size, bool (*is_it)(uint64_t address))
{
    for (uint64_t address = offset; address + size <= BELOW_4G; address += step) {
        if (EFI_ERROR(allocate_at(EfiLoaderData, address, size)))
            continue;
        if (is_it(address))
            return address;
        memory_free(address, size);
    }
    return 0;
}

static bool refuse_allocation(const struct need *n, EFI_STATUS status, struct refusal *r)
{
    return refuse(r, REFUSE_NO_MEMORY,
                  "%s%s%s: found %lu KiB as the largest free block from 0x%lx to 0x%lx aligned to "
                  "%lu KiB, and EFI status 0x%lx from firmware, wanted %lu KiB; use a machine with "
                  "more memory, a smaller file or options that take less, or, if the block is "
                  "large enough, update the firmware",
                  n->what, n->path[0] == '\0' ? "" : " ", n->path,
                  survey_memory_map(n).largest / KIB, n->least, n->limit - 1, n->alignment / KIB,
                  status, (n->size + KIB - 1) / KIB);
}

bool memory_allocate(struct range *out, EFI_MEMORY_TYPE type, const struct need *n,
                     enum place place, struct refusal *r)
{
    EFI_PHYSICAL_ADDRESS at;

    if (allocated == ALLOCATIONS_MAX)
        return refuse_allocation(n, EFI_OUT_OF_RESOURCES, r);
    EFI_STATUS status = place == PLACE_ANY ? allocate_anywhere(type, n, &at)
                                           : allocate_at_lowest_address(type, n, &at);
    if (EFI_ERROR(status))
        return refuse_allocation(n, status, r);
    *out = (struct range){at, EFI_SIZE_TO_PAGES(n->size) * PAGE_SIZE};
    allocations[allocated++] = *out;
    return true;
}

void memory_free_all(void)
{
    for (; allocated > 0; allocated--)
        memory_free(allocations[allocated - 1].base, allocations[allocated - 1].size);
}
