/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Files of /sys, /proc and the EFI system partition. What is not there stays unknown.
 */
#define _GNU_SOURCE
#include "metal/check/linux_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bits.h"
#include "mm/dmar.h"
#include "mm/vtd_registers.h"

#define FILE_MAX (64u << 20)
#define MEMMAP "/sys/firmware/memmap"
#define TABLES "/sys/firmware/acpi/tables"
#define IOMMU "/sys/class/iommu"
#define EFI "/sys/firmware/efi"
/* UEFI specification, "Globally Defined Variables": EFI_GLOBAL_VARIABLE. */
#define SECURE_BOOT EFI "/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
#define EFIVAR_ATTRIBUTES 4 /* bytes before a variable's own (Linux, efivarfs.rst) */
#define FOLDER "EFI/pmuvisor"
/* An EFI image is PE32+ (PE Format, "MS-DOS Stub (Image Only)", "Optional Header Data Directories
 * (Image Only)"): where the file says that its header begins, and in that one the bytes of
 * signatures, the directory "Certificate Table". */
#define PE_POINTER 0x3c
#define PE_CERTIFICATES_SIZE (24 + 148)
#define PATH_BYTES 4096
#define NAME_BYTES 300
#define BYTES_A_LINE 32

char *file_text(const char *path, size_t *length)
{
    FILE *in = fopen(path, "re");
    char *text = NULL;
    size_t used = 0, got;

    if (in == NULL)
        return NULL;
    do {
        char *more = realloc(text, used + PATH_BYTES + 1);

        if (more == NULL)
            break;
        text = more;
        got = fread(text + used, 1, PATH_BYTES, in);
        used += got;
    } while (got > 0 && used < FILE_MAX);
    bool failed = ferror(in) != 0;
    fclose(in);
    if (text != NULL)
        text[used] = '\0';
    if (failed) {
        free(text);
        return NULL;
    }
    if (length != NULL)
        *length = used;
    return text;
}

void run_program(const char *name, const char *argument)
{
    pid_t child = fork();

    if (child == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execlp(name, name, argument, (char *)NULL);
        _exit(127);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

void write_line(FILE *out, const char *word, const char *format, ...)
{
    char *line;
    va_list arguments;

    va_start(arguments, format);
    int length = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (length < 0)
        out_of_memory();
    for (char *at = line; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' && *at != '\t')
            *at = '?';
    fprintf(out, "%s %s\n", word, line);
    free(line);
}

static char *text_in(const char *folder, const char *name, const char *file)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/%s/%s", folder, name, file);
    char *text = file_text(path, NULL);
    if (text != NULL)
        text[strcspn(text, "\n")] = '\0';
    return text;
}

static uint64_t number_in(const char *folder, const char *name, const char *file)
{
    char *text = text_in(folder, name, file);
    uint64_t number = text == NULL ? 0 : strtoull(text, NULL, 16);

    free(text);
    return number;
}

/* ---- memory ---- */

void write_memory_map(FILE *out)
{
    struct dirent **names;
    int count = scandir(MEMMAP, &names, NULL, versionsort);

    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        char *kind = text_in(MEMMAP, name, "type");

        if (kind != NULL)
            fprintf(out, "memory %016" PRIx64 " %016" PRIx64 " %s\n",
                    number_in(MEMMAP, name, "start"), number_in(MEMMAP, name, "end"), kind);
        free(kind);
    }
}

/* ---- ACPI ---- */

/* Windows' keys are nobody's business, and the image reads neither table. */
static bool holds_key(const char *table)
{
    return memcmp(table, "MSDM", SIGNATURE_LENGTH) == 0 ||
           memcmp(table, "SLIC", SIGNATURE_LENGTH) == 0;
}

static void write_table(FILE *out, const uint8_t *bytes, size_t length)
{
    fprintf(out, "table %.*s %zu\n", SIGNATURE_LENGTH, (const char *)bytes, length);
    for (size_t i = 0; i < length; i++)
        fprintf(out, "%s%02x%s", i % BYTES_A_LINE == 0 ? "+ " : "", bytes[i],
                i % BYTES_A_LINE == BYTES_A_LINE - 1 || i == length - 1 ? "\n" : "");
}

void write_tables(FILE *out)
{
    struct dirent **names;
    int count = scandir(TABLES, &names, NULL, versionsort);
    struct stat status;

    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        size_t length = 0;

        snprintf(path, sizeof(path), TABLES "/%s", names[i]->d_name);
        if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
            continue;
        char *bytes = file_text(path, &length);
        if (bytes != NULL && length >= SIGNATURE_LENGTH && !holds_key(bytes))
            write_table(out, (const uint8_t *)bytes, length);
        free(bytes);
    }
    if (stat(TABLES "/DSDT", &status) == 0) /* Linux shows them all, or none */
        fprintf(out, "tables complete\n");
}

/* ---- VT-d ---- */

static bool unit_from_memory(uint64_t address, uint64_t *cap, uint64_t *ecap)
{
    int file = open("/dev/mem", O_RDONLY | O_CLOEXEC | O_SYNC);
    void *page = file < 0 ? MAP_FAILED
                          : mmap(NULL, PAGE_SIZE, PROT_READ, MAP_SHARED, file, (off_t)address);

    if (file >= 0)
        close(file);
    if (page == MAP_FAILED)
        return false;
    const volatile uint64_t *registers = page;
    *cap = registers[VTD_CAP / sizeof(*registers)];
    *ecap = registers[VTD_ECAP / sizeof(*registers)];
    munmap(page, PAGE_SIZE);
    return true;
}

static bool unit_from_sysfs(uint64_t address, uint64_t *cap, uint64_t *ecap)
{
    struct dirent **names;
    int count = scandir(IOMMU, &names, NULL, versionsort);

    for (int i = 0; i < count; i++) {
        char name[NAME_BYTES];

        snprintf(name, sizeof(name), "%s/intel-iommu", names[i]->d_name);
        if (number_in(IOMMU, name, "address") != address)
            continue;
        *cap = number_in(IOMMU, name, "cap");
        *ecap = number_in(IOMMU, name, "ecap");
        return true;
    }
    return false;
}

void write_units(FILE *out)
{
    size_t length = 0;
    char *table = file_text(TABLES "/DMAR", &length);
    struct dmar d = {0};

    if (table != NULL && length >= sizeof(uint64_t) && dmar_read(table, &d))
        for (uint32_t i = 0; i < d.unit_count; i++) {
            uint64_t base = d.units[i].base, cap, ecap;

            if (unit_from_sysfs(base, &cap, &ecap) || unit_from_memory(base, &cap, &ecap))
                fprintf(out, "vtd %016" PRIx64 " %016" PRIx64 " %016" PRIx64 "\n", base, cap, ecap);
        }
    free(table);
}

/* ---- firmware ---- */

void write_secure_boot(FILE *out)
{
    size_t length;
    char *variable = file_text(SECURE_BOOT, &length);
    struct stat status;

    if (variable != NULL && length > EFIVAR_ATTRIBUTES)
        fprintf(out, "secure_boot %s\n", variable[EFIVAR_ATTRIBUTES] == 1 ? "on" : "off");
    free(variable);
    if (stat(EFI, &status) != 0)
        write_line(out, "fact",
                   "this Linux was not started by UEFI, which PMUvisor needs: change the "
                   "firmware's boot mode");
}

/* ---- the EFI system partition ---- */

static bool has_efi(const char *folder)
{
    char path[PATH_BYTES];
    struct stat status;

    snprintf(path, sizeof(path), "%s/EFI", folder);
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static void write_image(FILE *out, const char *path)
{
    size_t length;
    char *image = file_text(path, &length);
    uint32_t header = 0, size = 0;

    if (image != NULL && length >= PE_POINTER + sizeof(header))
        memcpy(&header, image + PE_POINTER, sizeof(header));
    if (header != 0 && header + (uint64_t)PE_CERTIFICATES_SIZE + sizeof(size) <= length) {
        memcpy(&size, image + header + PE_CERTIFICATES_SIZE, sizeof(size));
        fprintf(out, "image_signed %s\n", size != 0 ? "on" : "off");
    }
    free(image);
}

bool write_esp(FILE *out, const char *esp, char why[WHY_MAX])
{
    static const char *const usual[] = {"/boot/efi", "/efi", "/boot"};
    struct statvfs space;
    char path[PATH_BYTES], *rest = NULL;

    for (unsigned i = 0; esp == NULL && i < LENGTH_OF(usual); i++)
        if (has_efi(usual[i]))
            esp = usual[i];
    if (esp == NULL)
        return true;
    if (!has_efi(esp)) {
        snprintf(why, WHY_MAX,
                 "--esp: found no folder EFI in '%.200s', wanted an EFI system "
                 "partition; usual places: /boot/efi, /efi",
                 esp);
        return false;
    }
    if (statvfs(esp, &space) == 0)
        write_line(out, "fact", "EFI system partition: %s, %llu MiB free", esp,
                   (unsigned long long)space.f_bavail * space.f_frsize >> 20);
    snprintf(path, sizeof(path), "%s/" FOLDER "/pmuvisor.cfg", esp);
    char *config = file_text(path, NULL);
    for (char *line = config == NULL ? NULL : strtok_r(config, "\r\n", &rest); line != NULL;
         line = strtok_r(NULL, "\r\n", &rest))
        write_line(out, "config", "%s", line);
    free(config);
    snprintf(path, sizeof(path), "%s/" FOLDER "/pmuvisor.efi", esp);
    write_image(out, path);
    return true;
}
