/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Memory from firmware that does not give all that it lists: a double of boot services over some
 * MiB, page by page. It refuses whole blocks and parts of them, as OVMF does in its bins, and
 * changes its map when it is asked for it. (UEFI specification, "Memory Allocation Services".)
 */
#define SETUP setup
#define TEARDOWN teardown
#include "unit.h"

#include "boot/boot.h"
#include "lib/refusal.h"

#define PAGES 16384
#define STRIDE 48 /* bytes; firmware's descriptors are longer than the structure */

/* ---- the double ---- */

struct firmware firmware;

static uint8_t types[PAGES]; /* as the map lists them */
static bool kept[PAGES];     /* never given, whatever the map lists */
static uint64_t asked;       /* calls of AllocatePages() */
static uint64_t tables;      /* pool buffers that are not freed yet */
/* Called before a call of this service is answered: what else happens in the machine. */
static void (*before_map)(void);

static UINTN run_of(UINTN page)
{
    UINTN end = page + 1;

    while (end < PAGES && types[end] == types[page])
        end++;
    return end - page;
}

static EFI_STATUS EFIAPI get_map(UINTN *size, EFI_MEMORY_DESCRIPTOR *map, UINTN *key, UINTN *stride,
                                 UINT32 *version)
{
    UINTN room = *size;

    if (before_map)
        before_map();
    *size = 0;
    *key = 1;
    *stride = STRIDE;
    *version = 1;
    for (UINTN page = 0; page < PAGES; page += run_of(page)) {
        *size += STRIDE;
        if (*size <= room)
            *(EFI_MEMORY_DESCRIPTOR *)((uint8_t *)map + *size - STRIDE) = (EFI_MEMORY_DESCRIPTOR){
                .Type = types[page],
                .PhysicalStart = page * PAGE_SIZE,
                .NumberOfPages = run_of(page)};
    }
    return *size <= room ? EFI_SUCCESS : EFI_BUFFER_TOO_SMALL;
}

static bool gives(UINTN first, UINTN pages)
{
    for (UINTN page = first; page < first + pages; page++)
        if (page >= PAGES || types[page] != EfiConventionalMemory || kept[page])
            return false;
    return true;
}

/* Gives the highest place below a limit, as EDK II does. */
static EFI_STATUS EFIAPI allocate_pages(EFI_ALLOCATE_TYPE how, EFI_MEMORY_TYPE type, UINTN pages,
                                        EFI_PHYSICAL_ADDRESS *address)
{
    UINTN first = *address / PAGE_SIZE;

    asked++;
    if (how == AllocateMaxAddress) {
        UINTN end = (*address + 1) / PAGE_SIZE;
        first = (end < PAGES ? end : PAGES) - pages;
        while (first > 0 && !gives(first, pages))
            first--;
    } else {
        assert_int_equal(how, AllocateAddress);
        assert_int_equal(*address % PAGE_SIZE, 0);
    }
    if (!gives(first, pages))
        return EFI_NOT_FOUND;
    memset(types + first, (int)type, pages);
    *address = first * PAGE_SIZE;
    return EFI_SUCCESS;
}

static EFI_STATUS EFIAPI free_pages(EFI_PHYSICAL_ADDRESS address, UINTN pages)
{
    UINTN first = address / PAGE_SIZE;

    for (UINTN page = first; page < first + pages; page++)
        assert_true(types[page] == EfiLoaderData || types[page] == EfiReservedMemoryType);
    memset(types + first, EfiConventionalMemory, pages);
    return EFI_SUCCESS;
}

static EFI_STATUS EFIAPI allocate_pool(EFI_MEMORY_TYPE type, UINTN size, void **buffer)
{
    (void)type;
    *buffer = malloc(size); /* so that ASan sees a map that grew past it */
    tables++;
    return EFI_SUCCESS;
}

static EFI_STATUS EFIAPI free_pool(void *buffer)
{
    free(buffer);
    tables--;
    return EFI_SUCCESS;
}

static EFI_BOOT_SERVICES services = {.GetMemoryMap = get_map,
                                     .AllocatePages = allocate_pages,
                                     .FreePages = free_pages,
                                     .AllocatePool = allocate_pool,
                                     .FreePool = free_pool};

/* ---- worlds ---- */

#define PAGE(address) ((address) / PAGE_SIZE)

static void list(uint64_t from, uint64_t to, int type)
{
    memset(types + PAGE(from), type, PAGE(to - from));
}

static void keep(uint64_t from, uint64_t to) { memset(kept + PAGE(from), true, PAGE(to - from)); }

/* A world in which firmware's own memory is everywhere. */
static int setup(void **state)
{
    (void)state;
    firmware.services = &services;
    memset(types, EfiRuntimeServicesData, sizeof(types));
    memset(kept, false, sizeof(kept));
    before_map = NULL;
    asked = 0;
    return 0;
}

/* Nothing may be left of any test. */
static int teardown(void **state)
{
    (void)state;
    before_map = NULL;
    memory_free_all();
    for (UINTN page = 0; page < PAGES; page++)
        if (types[page] == EfiLoaderData)
            return -1;
    return tables == 0 ? 0 : -1;
}

/* As OVMF 2025.02 has it: a large block, and bins at the top of memory that it lists as free. */
static void world_of_bins(void)
{
    list(MIB, 48 * MIB, EfiConventionalMemory);
    list(49 * MIB, 49 * MIB + 0x8f000, EfiConventionalMemory);
    keep(49 * MIB, 49 * MIB + 0x8f000);
}

static struct need need_of(uint64_t size, uint64_t alignment)
{
    return (struct need){"memory for a test", "", size, alignment, MIB, BELOW_4G};
}

static uint64_t take(const struct need *n, enum place place)
{
    struct range got;
    struct refusal r = {0};

    if (!memory_allocate(&got, EfiLoaderData, n, place, &r))
        fail_msg("%s", r.line);
    assert_int_equal(got.size % PAGE_SIZE, 0);
    assert_true(got.size >= n->size && got.size < n->size + PAGE_SIZE);
    assert_int_equal(got.base % n->alignment, 0);
    assert_true(got.base >= n->least && got.base + got.size <= n->limit);
    return got.base;
}

/* ---- tests ---- */

TEST(all_given)
{
    struct need n = need_of(3 * PAGE_SIZE - 5, 2 * MIB);

    list(MIB, 40 * MIB, EfiConventionalMemory);
    list(41 * MIB, 43 * MIB + 2 * PAGE_SIZE, EfiConventionalMemory);
    assert_int_equal(take(&n, PLACE_LOWEST), 2 * MIB);
    n.least = 5 * MIB;
    assert_int_equal(take(&n, PLACE_LOWEST), 6 * MIB);
    n.alignment = PAGE_SIZE;
    assert_int_equal(take(&n, PLACE_ANY), 43 * MIB - PAGE_SIZE);
    n.limit = 30 * MIB;
    assert_int_equal(take(&n, PLACE_ANY), 30 * MIB - 3 * PAGE_SIZE);
    assert_int_equal(asked, 4);
}

TEST(a_block_refused)
{
    struct need n = need_of(56 * KIB, PAGE_SIZE);

    world_of_bins();
    assert_int_equal(take(&n, PLACE_ANY), 48 * MIB - 56 * KIB);
    assert_int_equal(asked, 1);
    memory_free_all();
    setup(state);
    list(MIB, MIB + 0x8f000, EfiConventionalMemory);
    keep(MIB, MIB + 0x8f000);
    list(3 * MIB, 48 * MIB, EfiConventionalMemory);
    assert_int_equal(take(&n, PLACE_LOWEST), 3 * MIB);
}

TEST(part_refused)
{
    struct need n = need_of(2 * MIB, 2 * MIB);

    list(MIB, 60 * MIB, EfiConventionalMemory);
    keep(2 * MIB, 9 * MIB);
    keep(13 * MIB, 14 * MIB);
    assert_int_equal(take(&n, PLACE_LOWEST), 10 * MIB);
    assert_int_equal(take(&n, PLACE_LOWEST), 14 * MIB);
}

/* The first MiB is not taken, even if firmware gives nothing else. */
TEST(only_low_memory)
{
    struct need n = need_of(PAGE_SIZE, PAGE_SIZE);
    struct range got = {0};
    struct refusal r = {0};

    list(PAGE_SIZE, MIB, EfiConventionalMemory);
    list(2 * MIB, 60 * MIB, EfiConventionalMemory);
    keep(2 * MIB, 60 * MIB);
    assert_false(memory_allocate(&got, EfiLoaderData, &n, PLACE_ANY, &r));
    assert_int_equal(got.size, 0);
    assert_contains(r.line, "found 59392 KiB as the largest free block");
    n.least = PAGE_SIZE;
    assert_int_equal(take(&n, PLACE_ANY), MIB - PAGE_SIZE); /* given back before */
}

/* ---- a map that changes ---- */

/* More descriptors each time: those that are spare do not do, until it ends. */
static unsigned growths;

static void map_grows(void)
{
    if (growths == 0)
        return;
    growths--;
    for (uint64_t i = 0; i < 20; i++)
        types[PAGE(2 * MIB) + 64 * growths + 2 * i] = EfiBootServicesData;
}

TEST(grown_between_size_and_map)
{
    list(MIB, 60 * MIB, EfiConventionalMemory);
    growths = 5;
    before_map = map_grows;
    assert_int_equal(memory_top(), PAGES * PAGE_SIZE);
    growths = 200; /* it never ends: no map */
    assert_int_equal(memory_top(), 0);
    assert_true(growths > 100);
}

/* ---- refusals ---- */

TEST(nothing_given)
{
    struct need n = need_of(4 * KIB, PAGE_SIZE);
    struct range got = {0};
    struct refusal r = {0};
    char wanted[80];

    n.limit = PAGES * PAGE_SIZE;
    list(MIB, 60 * MIB, EfiConventionalMemory);
    keep(0, PAGES * PAGE_SIZE);
    snprintf(wanted, sizeof(wanted), "EFI status 0x%lx from firmware, wanted 4 KiB;",
             (unsigned long)EFI_NOT_FOUND);
    for (enum place place = PLACE_LOWEST; place <= PLACE_ANY; place++) {
        assert_false(memory_allocate(&got, EfiLoaderData, &n, place, &r));
        assert_int_equal(r.kind, REFUSE_NO_MEMORY);
        assert_int_equal(got.size, 0);
        assert_contains(r.line, wanted);
        assert_contains(r.line, "found 60416 KiB as the largest free block");
    }
}

TEST(nothing_fits)
{
    struct need n = need_of(2 * MIB, PAGE_SIZE);
    struct range got;
    struct refusal r = {0};

    list(4 * MIB, 5 * MIB, EfiConventionalMemory);
    assert_false(memory_allocate(&got, EfiLoaderData, &n, PLACE_ANY, &r));
    assert_contains(r.line, "found 1024 KiB as the largest free block");
    assert_contains(r.line, "wanted 2048 KiB;");
}

/* ---- the other ways to memory ---- */

TEST(map_buffer)
{
    struct efi_map map;
    uint64_t capacity;
    struct refusal r;

    world_of_bins();
    assert_true(memory_map_reserve(&map, &capacity, 64, &r));
    assert_true(capacity >= 69 * STRIDE && map.descriptor_size == STRIDE);
    assert_int_equal((uintptr_t)map.entries, 48 * MIB - capacity);
}

static uint64_t looked;

static bool is_wanted(uint64_t address)
{
    looked++;
    assert_int_equal(types[PAGE(address)], EfiLoaderData);
    return address >= 20 * MIB + PAGE_SIZE;
}

/* Memory is looked at only once it is given, and what is refused does not end the search. */
TEST(find_in_refused)
{
    list(2 * MIB, 60 * MIB, EfiConventionalMemory);
    keep(4 * MIB, 10 * MIB);
    keep(20 * MIB, 23 * MIB);
    looked = 0;
    assert_int_equal(memory_scan(2 * MIB, PAGE_SIZE, 8 * KIB, is_wanted), 24 * MIB + PAGE_SIZE);
    assert_int_equal(looked, 1 + 5 + 1);
    memory_free(24 * MIB + PAGE_SIZE, 8 * KIB);
}
