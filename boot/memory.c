/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Memory from firmware: pages at chosen places, all remembered so that a refusal can give them
 * back, and the memory map. (UEFI specification, "Memory Allocation Services".)
 */
#include "boot.h"

#define ALLOCATIONS_MAX 8
#define SNAPSHOT_SPARE 8 /* descriptors: the buffer's own allocation splits some */

static struct range allocations[ALLOCATIONS_MAX];

/* ---- the memory map ---- */

static const EFI_MEMORY_DESCRIPTOR *descriptor(const struct efi_map *map, uint64_t index)
{
    return (const EFI_MEMORY_DESCRIPTOR *)((const uint8_t *)map->entries +
                                           index * map->descriptor_size);
}

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

/* A buffer of pool memory for one look at the map. */
static EFI_STATUS map_snapshot(struct efi_map *map)
{
    UINTN size = 0, key, stride = 0;
    UINT32 version;

    EFI_STATUS status = firmware.services->GetMemoryMap(&size, NULL, &key, &stride, &version);
    if (status != EFI_BUFFER_TOO_SMALL)
        return EFI_ERROR(status) ? status : EFI_DEVICE_ERROR;
    size += SNAPSHOT_SPARE * stride;
    status = firmware.services->AllocatePool(EfiLoaderData, size, &map->entries);
    if (EFI_ERROR(status))
        return status;
    status = memory_map_get(map, size, &key);
    if (EFI_ERROR(status))
        firmware.services->FreePool(map->entries);
    return status;
}

uint64_t memory_top(void)
{
    struct efi_map map = {0};
    uint64_t top = 0;

    if (EFI_ERROR(map_snapshot(&map)))
        return 0;
    for (uint64_t i = 0; i < map.size / map.descriptor_size; i++) {
        const EFI_MEMORY_DESCRIPTOR *d = descriptor(&map, i);
        uint64_t end = d->PhysicalStart + d->NumberOfPages * PAGE_SIZE;

        if (d->Type != EfiMemoryMappedIO && d->Type != EfiMemoryMappedIOPortSpace && end > top)
            top = end;
    }
    firmware.services->FreePool(map.entries);
    return top;
}

EFI_STATUS memory_map_reserve(struct efi_map *map, uint64_t *capacity, uint64_t spare)
{
    UINTN size = 0, key, stride = 0;
    UINT32 version;
    struct range buffer;

    EFI_STATUS status = firmware.services->GetMemoryMap(&size, NULL, &key, &stride, &version);
    if (status != EFI_BUFFER_TOO_SMALL)
        return EFI_ERROR(status) ? status : EFI_DEVICE_ERROR;
    status = memory_allocate(EfiLoaderData, size + spare * stride, PAGE_SIZE, MIB, BELOW_4G,
                             PLACE_HIGHEST, &buffer);
    if (EFI_ERROR(status))
        return status;
    map->entries = (void *)(uintptr_t)buffer.base;
    map->descriptor_size = stride;
    *capacity = buffer.size;
    return EFI_SUCCESS;
}

/* ---- pages ---- */

/* The part of a free descriptor inside [least, limit); size 0: none. */
static struct range free_part(const EFI_MEMORY_DESCRIPTOR *d, uint64_t least, uint64_t limit)
{
    uint64_t start = d->PhysicalStart, end = start + d->NumberOfPages * PAGE_SIZE;

    if (d->Type != EfiConventionalMemory)
        return (struct range){0, 0};
    if (start < least)
        start = least;
    if (end > limit)
        end = limit;
    return start < end ? (struct range){start, end - start} : (struct range){0, 0};
}

/* An aligned place of `size` bytes in a free range; false: it does not fit. */
static bool fit(struct range r, uint64_t size, uint64_t alignment, enum place place,
                uint64_t *address)
{
    uint64_t lowest = (r.base + alignment - 1) & ~(alignment - 1);

    if (r.size < size || lowest < r.base || lowest > r.base + r.size - size)
        return false;
    *address = place == PLACE_LOWEST ? lowest : (r.base + r.size - size) & ~(alignment - 1);
    return true;
}

static EFI_STATUS find_place(uint64_t size, uint64_t alignment, uint64_t least, uint64_t limit,
                             enum place place, uint64_t *address)
{
    struct efi_map map = {0};
    bool found = false;

    EFI_STATUS status = map_snapshot(&map);
    if (EFI_ERROR(status))
        return status;
    for (uint64_t i = 0; i < map.size / map.descriptor_size; i++) {
        uint64_t candidate;
        struct range part = free_part(descriptor(&map, i), least, limit);
        if (!fit(part, size, alignment, place, &candidate))
            continue;
        if (!found || (place == PLACE_LOWEST) == (candidate < *address))
            *address = candidate;
        found = true;
    }
    firmware.services->FreePool(map.entries);
    return found ? EFI_SUCCESS : EFI_OUT_OF_RESOURCES;
}

EFI_STATUS memory_allocate(EFI_MEMORY_TYPE type, uint64_t size, uint64_t alignment, uint64_t least,
                           uint64_t limit, enum place place, struct range *out)
{
    uint64_t rounded = (size + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1), slot = 0, address;

    while (slot < ALLOCATIONS_MAX && allocations[slot].size != 0)
        slot++;
    if (slot == ALLOCATIONS_MAX || rounded < size || rounded == 0)
        return EFI_OUT_OF_RESOURCES;
    EFI_STATUS status = find_place(rounded, alignment, least, limit, place, &address);
    if (EFI_ERROR(status))
        return status;
    EFI_PHYSICAL_ADDRESS at = address;
    status = firmware.services->AllocatePages(AllocateAddress, type, rounded / PAGE_SIZE, &at);
    if (EFI_ERROR(status))
        return status;
    *out = allocations[slot] = (struct range){at, rounded};
    return EFI_SUCCESS;
}

static void memory_free(struct range range)
{
    for (uint64_t i = 0; i < ALLOCATIONS_MAX; i++) {
        if (allocations[i].size == 0 || allocations[i].base != range.base)
            continue;
        firmware.services->FreePages(allocations[i].base, allocations[i].size / PAGE_SIZE);
        allocations[i].size = 0;
    }
}

void memory_free_all(void)
{
    for (uint64_t i = 0; i < ALLOCATIONS_MAX; i++) {
        if (allocations[i].size != 0)
            memory_free(allocations[i]);
    }
}

uint64_t memory_largest(uint64_t alignment, uint64_t least, uint64_t limit)
{
    struct efi_map map = {0};
    uint64_t largest = 0;

    if (EFI_ERROR(map_snapshot(&map)))
        return 0;
    for (uint64_t i = 0; i < map.size / map.descriptor_size; i++) {
        struct range part = free_part(descriptor(&map, i), least, limit);
        uint64_t lost = -part.base & (alignment - 1);
        if (part.size > lost && part.size - lost > largest)
            largest = part.size - lost;
    }
    firmware.services->FreePool(map.entries);
    return largest;
}
