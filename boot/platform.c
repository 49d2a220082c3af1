/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Gets the facts about the machine that only firmware knows: the address of the ACPI tables, the
 * screen, and the devices to which firmware's own text goes. (UEFI specification, "EFI
 * Configuration Table", "Graphics Output Protocol", "Device Path Protocol".)
 */
#include "boot/boot.h"

#include <string.h>

#include "bits.h"
#include "boot/acpi.h"

#define EISA_PNP0501 0x050141d0u /* a UART's EISA ID in an ACPI device path node */

struct firmware firmware;

/* The tag that firmware puts on the devices of its text console. */
static const EFI_GUID console_device = {
    0xd3b36f2c, 0xd551, 0x11d4, {0x9a, 0x46, 0x00, 0x90, 0x27, 0x3f, 0xc1, 0x4d}};

uint64_t platform_find_rsdp(void)
{
    static const EFI_GUID guids[] = {ACPI_20_TABLE_GUID, ACPI_TABLE_GUID}; /* the newer one first */

    for (unsigned g = 0; g < LENGTH_OF(guids); g++)
        for (UINTN i = 0; i < firmware.system->NumberOfTableEntries; i++)
            if (memcmp(&firmware.system->ConfigurationTable[i].VendorGuid, &guids[g],
                       sizeof(guids[g])) == 0)
                return (uintptr_t)firmware.system->ConfigurationTable[i].VendorTable;
    return 0;
}

/* Returns false if the processor cannot write to the screen's memory, or if the pixels do not have
 * 32 bits. */
static bool read_framebuffer(const EFI_GRAPHICS_OUTPUT_PROTOCOL *gop, struct framebuffer *fb)
{
    static const EFI_PIXEL_BITMASK rgb = {0xff, 0xff00, 0xff0000, 0xff000000};
    static const EFI_PIXEL_BITMASK bgr = {0xff0000, 0xff00, 0xff, 0xff000000};

    if (gop->Mode == NULL || gop->Mode->Info == NULL || gop->Mode->FrameBufferBase == 0)
        return false;
    const EFI_GRAPHICS_OUTPUT_MODE_INFORMATION *info = gop->Mode->Info;
    const EFI_PIXEL_BITMASK *const masks[] = {
        [PixelRedGreenBlueReserved8BitPerColor] = &rgb,
        [PixelBlueGreenRedReserved8BitPerColor] = &bgr,
        [PixelBitMask] = &info->PixelInformation,
    };
    bool has_pixels = info->PixelFormat <= PixelBitMask; /* otherwise PixelBltOnly */
    const EFI_PIXEL_BITMASK *mask = masks[has_pixels ? info->PixelFormat : 0];

    /* Only 32-bit pixels are handled: the four masks together cover all bits. */
    if (!has_pixels ||
        (mask->RedMask | mask->GreenMask | mask->BlueMask | mask->ReservedMask) != UINT32_MAX)
        return false;
    *fb = (struct framebuffer){
        .base = gop->Mode->FrameBufferBase,
        .size = gop->Mode->FrameBufferSize,
        .width = info->HorizontalResolution,
        .height = info->VerticalResolution,
        .pixels_per_line = info->PixelsPerScanLine,
        .red_mask = mask->RedMask,
        .green_mask = mask->GreenMask,
        .blue_mask = mask->BlueMask,
        .reserved_mask = mask->ReservedMask,
    };
    return true;
}

/* Firmware's console splitter offers a screen of its own that has no memory. So this function looks
 * for real screens, and prefers one that shows firmware's text. */
void platform_find_framebuffer(struct framebuffer *fb)
{
    EFI_GUID guid = EFI_GRAPHICS_OUTPUT_PROTOCOL_GUID, console = console_device;
    EFI_HANDLE *handles;
    UINTN count;
    bool shows_text = false;

    *fb = (struct framebuffer){0};
    if (EFI_ERROR(firmware.services->LocateHandleBuffer(ByProtocol, &guid, NULL, &count, &handles)))
        return;
    for (UINTN i = 0; i < count && !shows_text; i++) {
        EFI_GRAPHICS_OUTPUT_PROTOCOL *gop;
        struct framebuffer found;
        void *tag;
        if (EFI_ERROR(firmware.services->HandleProtocol(handles[i], &guid, (void **)&gop)) ||
            !read_framebuffer(gop, &found))
            continue;
        shows_text = !EFI_ERROR(firmware.services->HandleProtocol(handles[i], &console, &tag));
        if (shows_text || fb->base == 0)
            *fb = found;
    }
    firmware.services->FreePool(handles);
}

uint64_t device_node_size(const EFI_DEVICE_PATH *node)
{
    uint64_t size = (uint64_t)DevicePathNodeLength(node);

    return IsDevicePathEndType(node) || size < sizeof(*node) ? 0 : size;
}

/* The index of a port in this table is the number (UID) that firmware gives the UART at the
 * port. */
static const uint16_t usual_ports[] = {SERIAL_COM1, SERIAL_COM2, 0x3e8, 0x2e8};

/* Returns true if the device path contains the UART `uid`, or any UART if `uid` is past the end of
 * usual_ports[]. */
static bool path_has_uart(const EFI_DEVICE_PATH *node, uint32_t uid)
{
    for (; device_node_size(node) != 0; node = NextDevicePathNode(node)) {
        ACPI_HID_DEVICE_PATH acpi = {0};
        if (device_node_size(node) >= sizeof(acpi))
            memcpy(&acpi, node, sizeof(acpi));
        if (acpi.Header.Type == ACPI_DEVICE_PATH && acpi.Header.SubType == ACPI_DP &&
            acpi.HID == EISA_PNP0501 && (acpi.UID == uid || uid == LENGTH_OF(usual_ports)))
            return true;
    }
    return false;
}

bool platform_console_uses_port(uint16_t port)
{
    EFI_GUID device_path = DEVICE_PATH_PROTOCOL, console = console_device;
    EFI_HANDLE *handles;
    UINTN count;
    uint32_t uid = 0;
    bool found = false;

    while (uid < LENGTH_OF(usual_ports) && usual_ports[uid] != port)
        uid++;
    /* The device path of a UART outside usual_ports[] does not tell its port. Then the SPCR has to
     * name the port. */
    bool unknown = uid == LENGTH_OF(usual_ports) &&
                   acpi_find_serial_line(platform_find_rsdp()).port != port;
    if (unknown || EFI_ERROR(firmware.services->LocateHandleBuffer(ByProtocol, &console, NULL,
                                                                   &count, &handles)))
        return false;
    for (UINTN i = 0; i < count && !found; i++) {
        void *path;
        if (!EFI_ERROR(firmware.services->HandleProtocol(handles[i], &device_path, &path)))
            found = path_has_uart(path, uid);
    }
    firmware.services->FreePool(handles);
    return found;
}
