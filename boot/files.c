/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads and writes files on the volume that the image was loaded from. (UEFI specification,
 * "EFI_FILE_PROTOCOL" and "File Path Media Device Path".)
 */
#include "boot/boot.h"
#include "boot/boot_text.h"

#define CHUNK MIB               /* bytes per read, and per step of the progress line */
#define PROGRESS_FROM (4 * MIB) /* smaller files need no progress line */
#define INFO_SIZE 1024          /* bytes of an EFI_FILE_INFO, which includes the file's name */

static EFI_FILE_HANDLE volume;
static uint16_t image_path[MAX_PATH_CHARACTERS];

/* Reads the image's own path from the file path nodes of its device path. */
static bool read_image_path(struct refusal *r)
{
    const EFI_DEVICE_PATH *node = firmware.loaded->FilePath;

    image_path[0] = 0;
    for (; node != NULL && device_node_size(node) != 0; node = NextDevicePathNode(node)) {
        uint64_t count = (device_node_size(node) - sizeof(*node)) / sizeof(uint16_t);

        if (DevicePathType(node) == MEDIA_DEVICE_PATH &&
            DevicePathSubType(node) == MEDIA_FILEPATH_DP &&
            !append_path(image_path, MAX_PATH_CHARACTERS, node + 1, count))
            return refuse(r, REFUSE_BAD_FILE,
                          "the path of the image has more than %u characters, wanted fewer; put "
                          "pmuvisor.efi into a folder with a shorter path",
                          MAX_PATH_CHARACTERS - 1);
    }
    return true;
}

static bool open_volume(struct refusal *r)
{
    EFI_GUID guid = EFI_SIMPLE_FILE_SYSTEM_PROTOCOL_GUID;
    EFI_FILE_IO_INTERFACE *file_system;

    if (volume != NULL)
        return true;
    EFI_STATUS status = EFI_UNSUPPORTED;
    if (firmware.loaded->DeviceHandle != NULL)
        status = firmware.services->HandleProtocol(firmware.loaded->DeviceHandle, &guid,
                                                   (void **)&file_system);
    if (!EFI_ERROR(status))
        status = file_system->OpenVolume(file_system, &volume);
    if (EFI_ERROR(status)) {
        volume = NULL;
        return refuse(r, REFUSE_NOT_FOUND,
                      "the volume that pmuvisor.efi was loaded from cannot be opened (EFI status "
                      "0x%lx), wanted one that firmware can read; start it from a FAT partition",
                      status);
    }
    return read_image_path(r);
}

static bool get_file_size(EFI_FILE_HANDLE file, const char *what, const char *path, uint64_t *out,
                          struct refusal *r)
{
    static uint64_t info[INFO_SIZE / sizeof(uint64_t)];
    EFI_GUID guid = EFI_FILE_INFO_ID;
    UINTN size = sizeof(info);
    const EFI_FILE_INFO *found = (const EFI_FILE_INFO *)info;

    EFI_STATUS status = file->GetInfo(file, &guid, &size, info);
    if (EFI_ERROR(status))
        return refuse(r, REFUSE_BAD_FILE,
                      "%s %s: its size cannot be read (EFI status 0x%lx); check the volume", what,
                      path, status);
    if (found->Attribute & EFI_FILE_DIRECTORY)
        return refuse(r, REFUSE_BAD_FILE,
                      "%s %s: found a folder, wanted a file; remove it or give another path", what,
                      path);
    *out = found->FileSize;
    return true;
}

static bool read_all(EFI_FILE_HANDLE file, const char *what, const char *path,
                     const struct range *to, struct refusal *r)
{
    uint64_t done = 0, shown = 0; /* `shown`: tenths of the file that the progress line shows */

    log_printf("%s %s: %lu bytes", what, path, to->size);
    while (done < to->size) {
        UINTN chunk = to->size - done < CHUNK ? to->size - done : CHUNK;
        EFI_STATUS status = file->Read(file, &chunk, (uint8_t *)(uintptr_t)to->base + done);
        if (EFI_ERROR(status) || chunk == 0) {
            log_printf("\n");
            return refuse(r, REFUSE_BAD_FILE,
                          "%s %s: found only %lu of its %lu bytes readable (EFI status 0x%lx); "
                          "check the volume and copy it again",
                          what, path, done, to->size, status);
        }
        done += chunk;
        for (; to->size >= PROGRESS_FROM && shown < done * 10 / to->size; shown++)
            log_printf("%s %lu0%%", shown == 0 ? ", read:" : "", shown + 1);
    }
    log_printf("\n");
    return true;
}

/* Allocates memory for the file, and reads the file into it. */
static bool allocate_and_read(EFI_FILE_HANDLE file, const char *what, const char *path,
                              uint64_t limit, uint64_t high, struct range *out, struct refusal *r)
{
    struct need need = {what, path, 0, PAGE_SIZE, MIB, limit};

    *out = (struct range){0, 0};
    if (!get_file_size(file, what, path, &need.size, r))
        return false;
    if (need.size == 0)
        return true;
    const struct need higher = {what, path, need.size, PAGE_SIZE, MIB, high};
    if (!memory_allocate(out, EfiLoaderData, &need, PLACE_ANY, r) &&
        (high == 0 || !memory_allocate(out, EfiLoaderData, &higher, PLACE_ANY, r)))
        return false;
    out->size = need.size;
    return read_all(file, what, path, out, r);
}

bool file_load(const char *what, const char *path, uint64_t limit, uint64_t high, struct range *out,
               struct refusal *r)
{
    static uint16_t full[MAX_PATH_CHARACTERS];
    EFI_FILE_HANDLE file;

    if (!open_volume(r))
        return false;
    if (!join_path(image_path, path, full, MAX_PATH_CHARACTERS))
        return refuse(r, REFUSE_BAD_OPTION,
                      "%s %s: found a path of more than %u characters, wanted fewer; shorten it",
                      what, path, MAX_PATH_CHARACTERS - 1);
    EFI_STATUS status = volume->Open(volume, &file, full, EFI_FILE_MODE_READ, 0);
    if (status == EFI_NOT_FOUND)
        return refuse(r, REFUSE_NOT_FOUND,
                      "%s %s: not found on the volume of pmuvisor.efi; copy it there or correct "
                      "the option",
                      what, path);
    if (EFI_ERROR(status))
        return refuse(r, REFUSE_BAD_FILE,
                      "%s %s: cannot be opened (EFI status 0x%lx); check the volume", what, path,
                      status);
    bool done = allocate_and_read(file, what, path, limit, high, out, r);
    file->Close(file);
    return done;
}

bool file_save(const char *path, const struct range *pieces, uint64_t count)
{
    static uint16_t full[MAX_PATH_CHARACTERS];
    const uint64_t mode = EFI_FILE_MODE_READ | EFI_FILE_MODE_WRITE;
    struct refusal r;
    EFI_FILE_HANDLE file;

    if (!open_volume(&r) || !join_path(image_path, path, full, MAX_PATH_CHARACTERS))
        return false;
    /* Delete an existing file first, because overwriting the file would not shorten it. */
    if (!EFI_ERROR(volume->Open(volume, &file, full, mode, 0)))
        (void)file->Delete(file);
    bool done = !EFI_ERROR(volume->Open(volume, &file, full, mode | EFI_FILE_MODE_CREATE, 0));
    if (!done)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        UINTN size = pieces[i].size;
        done &= !EFI_ERROR(file->Write(file, &size, (void *)(uintptr_t)pieces[i].base)) &&
                size == pieces[i].size;
    }
    return !EFI_ERROR(file->Close(file)) && done;
}

const uint16_t *files_image_path(void) { return image_path; }

void files_close_volume(void)
{
    if (volume != NULL)
        volume->Close(volume);
    volume = NULL;
}
