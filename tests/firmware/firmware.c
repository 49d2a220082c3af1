/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Firmware, as the tests' own EFI applications use it.
 */
#include "tests/firmware/firmware.h"

#include <string.h>

#include "console/log.h"
#include "mm/mm.h"
#include "x86.h"

#define GIB (1ULL << 30)
#define DEBUG_EXIT 0xf4 /* QEMU's isa-debug-exit */

void *firmware_allocate(EFI_SYSTEM_TABLE *system, EFI_MEMORY_TYPE type, uint64_t bytes)
{
    EFI_PHYSICAL_ADDRESS address = 4 * GIB - 1;
    EFI_STATUS status = system->BootServices->AllocatePages(
        AllocateMaxAddress, type, (bytes + PAGE_SIZE - 1) / PAGE_SIZE, &address);

    return EFI_ERROR(status) ? NULL : (void *)(uintptr_t)address;
}

uint64_t firmware_rsdp(const EFI_SYSTEM_TABLE *system)
{
    static const EFI_GUID acpi_20 = ACPI_20_TABLE_GUID;

    for (UINTN i = 0; i < system->NumberOfTableEntries; i++)
        if (memcmp(&system->ConfigurationTable[i].VendorGuid, &acpi_20, sizeof(acpi_20)) == 0)
            return (uintptr_t)system->ConfigurationTable[i].VendorTable;
    return 0;
}

void firmware_end(uint32_t word)
{
    serial_drain();
    outl(DEBUG_EXIT, word);
    halt_forever();
}
