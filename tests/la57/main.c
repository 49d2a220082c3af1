/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An EFI application that starts PMUvisor as other firmware does: with 5-level paging on, with load
 * options that are no text, as of a boot option that firmware made itself, and with CR4.CET and
 * ACPI tables that are mapped read-only. The emulator's firmware does none of that.
 */
#include <efi.h>

#include <stdbool.h>
#include <string.h>

#include "lib/acpi.h"
#include "x86.h"

#define IMAGE_PATH u"\\EFI\\pmuvisor\\pmuvisor.efi"
#define GIB (1ULL << 30)
#define CPUID_7_ECX_LA57 BIT(16)

extern const char switch_start[], switch_end[];

static EFI_SYSTEM_TABLE *system_table;

/* crt0 of GNU-EFI calls this by the System V convention. */
EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *system);

static uint64_t page_below_4g(EFI_MEMORY_TYPE type)
{
    EFI_PHYSICAL_ADDRESS address = 4 * GIB - 1;

    if (EFI_ERROR(system_table->BootServices->AllocatePages(AllocateMaxAddress, type, 1, &address)))
        return 0;
    memset((void *)(uintptr_t)address, 0, 4096);
    return address;
}

static bool switch_to_5_levels(void)
{
    uint64_t code = page_below_4g(EfiLoaderCode);
    uint64_t *top = (uint64_t *)(uintptr_t)page_below_4g(EfiBootServicesData);

    if (!(cpuid(CPUID_LEAF_EXTENDED, 0).ecx & CPUID_7_ECX_LA57) || code == 0 || top == NULL)
        return false;
    memcpy((void *)(uintptr_t)code, switch_start, (size_t)(switch_end - switch_start));
    top[0] = read_cr3() | PTE_P | PTE_RW;
    ((void (*)(uint64_t))(uintptr_t)code)((uintptr_t)top);
    return read_cr4() & CR4_LA57;
}

/* A table of `level` - 1 that maps what the leaf maps. */
static bool split(uint64_t *leaf, unsigned level)
{
    uint64_t *below = (uint64_t *)(uintptr_t)page_below_4g(EfiBootServicesData);
    uint64_t entry = level == 2 ? *leaf & ~PTE_PS : *leaf;

    for (unsigned i = 0; below != NULL && i < TABLE_ENTRIES; i++)
        below[i] = entry + ((uint64_t)i << (PAGE_SHIFT + TABLE_INDEX_BITS * (level - 2)));
    if (below != NULL)
        *leaf = (uintptr_t)below | PTE_P | PTE_RW | PTE_US;
    return below != NULL;
}

static bool make_read_only(uint64_t address)
{
    uint64_t *entry = NULL, table = read_cr3();

    for (unsigned level = TABLE_LEVELS + 1; level >= 1; level--) {
        entry = &((uint64_t *)(uintptr_t)(table &
                                          PTE_ADDRESS))[address >> (PAGE_SHIFT + TABLE_INDEX_BITS *
                                                                                     (level - 1)) &
                                                        (TABLE_ENTRIES - 1)];
        if (level > 1 && *entry & PTE_PS && !split(entry, level))
            return false;
        table = *entry;
    }
    *entry &= ~PTE_RW;
    return true;
}

/* The emulator's firmware itself clears CR0.WP, which CR4.CET forbids: so CET comes when it is
 * gone. */
static EFI_EXIT_BOOT_SERVICES exit_boot_services;
static EFIAPI EFI_STATUS exit_with_cet(EFI_HANDLE image, UINTN key)
{
    EFI_STATUS status = exit_boot_services(image, key);

    if (!EFI_ERROR(status)) {
        write_cr0(read_cr0() | CR0_WP);
        write_cr4(read_cr4() | CR4_CET);
    }
    return status;
}

/* The lists of tables, which PMUvisor edits. */
static bool protect_lists(void)
{
    static const EFI_GUID acpi_20 = ACPI_20_TABLE_GUID;
    const struct acpi_rsdp *rsdp = NULL;

    for (UINTN i = 0; i < system_table->NumberOfTableEntries; i++)
        if (memcmp(&system_table->ConfigurationTable[i].VendorGuid, &acpi_20, sizeof(acpi_20)) == 0)
            rsdp = system_table->ConfigurationTable[i].VendorTable;
    write_cr0(read_cr0() & ~CR0_WP);
    if (rsdp == NULL || !make_read_only(rsdp->xsdt) || !make_read_only(rsdp->rsdt))
        return false;
    write_cr3(read_cr3());
    write_cr0(read_cr0() | CR0_WP);
    exit_boot_services = system_table->BootServices->ExitBootServices;
    system_table->BootServices->ExitBootServices = exit_with_cet;
    return true;
}

/* The volume's path, the file's, the end. */
static bool image_path(EFI_HANDLE volume, uint8_t *out, uint64_t size)
{
    EFI_GUID device_path = DEVICE_PATH_PROTOCOL;
    uint8_t *node, *at = out;

    if (EFI_ERROR(system_table->BootServices->HandleProtocol(volume, &device_path, (void **)&node)))
        return false;
    for (; (node[0] & EFI_DP_TYPE_MASK) != END_DEVICE_PATH_TYPE; at += node[2], node += node[2]) {
        if (node[2] < 4 || node[3] != 0 || (uint64_t)(at - out) + node[2] > size / 2)
            return false;
        memcpy(at, node, node[2]);
    }
    const uint8_t file[] = {MEDIA_DEVICE_PATH, MEDIA_FILEPATH_DP, 4 + sizeof(IMAGE_PATH), 0};
    const uint8_t end[] = {END_DEVICE_PATH_TYPE, END_ENTIRE_DEVICE_PATH_SUBTYPE, 4, 0};
    memcpy(at, file, sizeof(file));
    memcpy(at + sizeof(file), IMAGE_PATH, sizeof(IMAGE_PATH));
    memcpy(at + sizeof(file) + sizeof(IMAGE_PATH), end, sizeof(end));
    return true;
}

EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *system)
{
    static uint8_t path[1024];
    /* EDK II's mark of an option that it made itself. */
    static uint8_t mark[] = {0x4e, 0xac, 0x08, 0x81, 0x11, 0x9f, 0x59, 0x4d,
                             0x85, 0x0e, 0xe2, 0x1a, 0x52, 0x2c, 0x59, 0xb2};
    EFI_GUID loaded_image = LOADED_IMAGE_PROTOCOL;
    EFI_LOADED_IMAGE *self, *child;
    EFI_HANDLE handle;

    system_table = system;
    EFI_BOOT_SERVICES *services = system->BootServices;
    if (EFI_ERROR(services->HandleProtocol(image, &loaded_image, (void **)&self)) ||
        !image_path(self->DeviceHandle, path, sizeof(path)) || !switch_to_5_levels())
        return EFI_UNSUPPORTED;
    system->ConOut->OutputString(system->ConOut, (CHAR16 *)u"la57: 5 levels\r\n");
    if (EFI_ERROR(services->LoadImage(FALSE, image, (EFI_DEVICE_PATH *)path, NULL, 0, &handle)) ||
        EFI_ERROR(services->HandleProtocol(handle, &loaded_image, (void **)&child)))
        return EFI_NOT_FOUND;
    child->LoadOptions = mark;
    child->LoadOptionsSize = sizeof(mark);
    if (!protect_lists())
        return EFI_UNSUPPORTED;
    system->ConOut->OutputString(system->ConOut, (CHAR16 *)u"la57: CET, read-only tables\r\n");
    return services->StartImage(handle, NULL, NULL);
}
