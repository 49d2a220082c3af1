/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What PMUvisor would make of a machine without VMX (QEMU): an EFI application that links the
 * hypervisor's own ACPI, MTRR, EPT and e820 code, and runs it on what firmware says of this
 * machine. One line "plan: KEY=VALUE ..." and "plan: ok NAME" or "plan: FAIL NAME" for each check,
 * "plan: end" at the end; then QEMU ends.
 */
#include <efi.h>

#include "boot/acpi.h"
#include "console/log.h"
#include "guest/e820.h"
#include "mm/mm.h"
#include "tests/firmware/firmware.h"
#include "x86.h"

#define MAP_BYTES (1UL << 20)
#define E820_MAX 4096

static struct acpi_facts facts;
static unsigned failed;

/* crt0 of GNU-EFI calls this by the System V convention. */
EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *system);

static void check(const char *name, bool holds)
{
    log_printf("plan: %s %s\n", holds ? "ok" : "FAIL", name);
    failed += !holds;
}

static void report_pool_end(uint64_t count)
{
    log_printf("plan: the page pool is used up: found %lu pages, wanted %lu\n", page_pool_free(),
               count);
    firmware_end(true);
}

/* All that the map names but devices is mapped to itself with the type of the MTRRs. */
static bool all_mapped(const struct efi_map *map, const struct ept_request *q, uint64_t root)
{
    uint64_t bytes;
    enum memory_type type;

    for (uint64_t at = 0; at < map->size; at += map->descriptor_size) {
        const EFI_MEMORY_DESCRIPTOR *d = (const void *)((const uint8_t *)map->entries + at);
        uint64_t pages[] = {d->PhysicalStart,
                            d->PhysicalStart + (d->NumberOfPages - 1) * PAGE_SIZE};
        for (unsigned i = 0; i < 2; i++) {
            uint64_t entry = ept_lookup(root, pages[i], &bytes);
            if (d->Type == EfiMemoryMappedIO || pages[i] - q->hidden->base < q->hidden->size)
                continue;
            if ((entry & 7) != 7 || !mtrr_lookup_type(q->mtrr, pages[i], PAGE_SIZE, &type) ||
                (entry >> 3 & 7) != type) {
                log_printf("plan: 0x%lx has entry 0x%lx\n", pages[i], entry);
                return false;
            }
        }
    }
    return true;
}

static bool in_order(const struct boot_e820_entry *table, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++)
        if (table[i - 1].addr + table[i - 1].size > table[i].addr)
            return false;
    return count > 0 && count <= E820_MAX;
}

static void run(EFI_SYSTEM_TABLE *system)
{
    static struct mtrr_state mtrr;
    struct efi_map map = {.entries = firmware_allocate(system, EfiReservedMemoryType, MAP_BYTES)};
    struct boot_e820_entry *e820 = firmware_allocate(system, EfiReservedMemoryType,
                                                     E820_MAX * sizeof(*e820));
    UINTN size = MAP_BYTES, key, stride;
    UINT32 version;
    struct range pool = {0};
    struct ept_request q = {.mtrr = &mtrr,
                            .hidden = &pool,
                            .hidden_count = 1,
                            .page_2m = true,
                            .address_bits = cpuid(CPUID_LEAF_ADDRESS_SIZES, 0).eax & 0xff};

    acpi_facts_read(firmware_rsdp(system), &facts);
    acpi_warn_of_damage(facts.rsdp);
    mtrr_read(&mtrr);
    if (map.entries == NULL || e820 == NULL ||
        EFI_ERROR(
            system->BootServices->GetMemoryMap(&size, map.entries, &key, &stride, &version))) {
        check("memory_map", false);
        return;
    }
    map.size = size;
    map.descriptor_size = stride;
    for (uint64_t at = 0; at < size; at += stride) {
        const EFI_MEMORY_DESCRIPTOR *d = (const void *)((const uint8_t *)map.entries + at);
        uint64_t end = d->PhysicalStart + d->NumberOfPages * PAGE_SIZE;
        if (d->Type != EfiMemoryMappedIO && end > q.top)
            q.top = end;
    }
    page_pool_set_exhausted_hook(report_pool_end);
    for (int page_1g = 0; page_1g < 2; page_1g++) {
        q.page_1g = page_1g;
        uint64_t needed = ept_pages_needed(&q);
        pool.size = (needed + 1) * PAGE_SIZE;
        pool.base = (uintptr_t)firmware_allocate(system, EfiReservedMemoryType, pool.size);
        if (pool.base == 0) {
            check("pool", false);
            return;
        }
        page_pool_init(pool);
        uint64_t root = ept_build(&q), used = needed - page_pool_free();
        const struct e820_overlay overlay = {pool, E820_RESERVED};
        uint64_t count = e820_build(&map, &overlay, 1, e820, E820_MAX);
        log_printf("plan: top=0x%lx reach=0x%lx bits=%u 1g=%d tables=%lu announced=%lu "
                   "descriptors=%lu e820=%lu processors=%u last_id=%u\n",
                   q.top, ept_get_address_limit(&q), q.address_bits, page_1g, used, needed,
                   size / stride, count, facts.processors,
                   facts.processors > 0 ? facts.apic_id[facts.processors - 1] : 0);
        check(page_1g ? "map_1g" : "map_2m", all_mapped(&map, &q, root));
        check(page_1g ? "e820_1g" : "e820_2m", in_order(e820, count));
    }
}

EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *system)
{
    (void)image;
    serial_start(SERIAL_COM1, DIVISOR_115200);
    run(system);
    log_printf("plan: end, %u failed\n", failed);
    firmware_end(failed != 0);
}
