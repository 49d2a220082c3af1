/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Files of /sys, /proc and the EFI system partition. What is not there stays unknown.
 */
#define _GNU_SOURCE
#include "metal/check/linux_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/screen_info.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mm/dmar.h"
#include "mm/vtd_registers.h"

#define FILE_MAX (64u << 20)
#define BOOT_PARAMETERS "/sys/kernel/boot_params/data"
#define PIXEL_BITS 32
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

void add_fact(struct machine *m, const char *format, ...)
{
    char line[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    strcat(line, "\n");
    append_text(&m->facts, line, strlen(line));
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

static void add_memory(struct machine *m, uint64_t first, uint64_t last, const char *kind)
{
    struct memory_line *line = &ADD(m->memory, m->memory_count);

    *line = (struct memory_line){.first = first, .last = last};
    snprintf(line->kind, sizeof(line->kind), "%s", kind);
}

static void read_iomem(struct machine *m)
{
    char *text = file_text("/proc/iomem", NULL), *rest = NULL;

    for (char *line = text == NULL ? NULL : strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        unsigned long long first, last;
        int at = 0;

        /* Those that are not in another one, and are memory. */
        if (line[0] == ' ' || sscanf(line, "%llx-%llx : %n", &first, &last, &at) != 2 || at == 0)
            continue;
        if (strcmp(line + at, KIND_RAM) == 0 || strncmp(line + at, "ACPI ", 5) == 0 ||
            strcmp(line + at, "Reserved") == 0 || strncmp(line + at, "Persistent", 10) == 0)
            add_memory(m, first, last, line + at);
    }
    free(text);
}

static int by_address(const void *a, const void *b)
{
    const struct memory_line *one = a, *other = b;

    return (one->first > other->first) - (one->first < other->first);
}

void read_memory_map(struct machine *m)
{
    DIR *folder = opendir(MEMMAP);

    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        char *kind = e->d_name[0] == '.' ? NULL : text_in(MEMMAP, e->d_name, "type");

        if (kind != NULL)
            add_memory(m, number_in(MEMMAP, e->d_name, "start"),
                       number_in(MEMMAP, e->d_name, "end"), kind);
        free(kind);
    }
    if (folder != NULL)
        closedir(folder);
    if (m->memory_count == 0)
        read_iomem(m);
    if (m->memory_count > 0)
        qsort(m->memory, m->memory_count, sizeof(*m->memory), by_address);
}

/* ---- the screen ---- */

void read_screen(struct machine *m)
{
    size_t length;
    char *parameters = file_text(BOOT_PARAMETERS, &length);
    struct screen_info s;

    if (parameters != NULL && length >= sizeof(s)) {
        memcpy(&s, parameters, sizeof(s)); /* the first of them (Linux, zero-page.rst) */
        if (s.orig_video_isVGA == VIDEO_TYPE_EFI && s.lfb_depth == PIXEL_BITS)
            m->screen = (struct screen_line){
                .base = s.lfb_base | (s.capabilities & VIDEO_CAPABILITY_64BIT_BASE
                                          ? (uint64_t)s.ext_lfb_base << 32
                                          : 0),
                .size = s.lfb_size,
                .width = s.lfb_width,
                .height = s.lfb_height,
                .pixels_per_line = s.lfb_linelength / (PIXEL_BITS / 8)};
    }
    free(parameters);
}

/* ---- ACPI ---- */

/* Windows' keys are nobody's business, and the image reads neither table. */
static bool holds_key(const char *table)
{
    return memcmp(table, "MSDM", SIGNATURE_LENGTH) == 0 ||
           memcmp(table, "SLIC", SIGNATURE_LENGTH) == 0;
}

void read_tables(struct machine *m)
{
    struct dirent **names;
    int count = scandir(TABLES, &names, NULL, versionsort);

    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        struct stat status;
        size_t length = 0;

        snprintf(path, sizeof(path), TABLES "/%s", names[i]->d_name);
        free(names[i]);
        if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
            continue;
        char *bytes = file_text(path, &length);
        if (bytes == NULL || length < SIGNATURE_LENGTH || holds_key(bytes)) {
            free(bytes);
            continue;
        }
        struct table *t = &ADD(m->tables, m->table_count);
        memcpy(t->signature, bytes, SIGNATURE_LENGTH);
        t->length = (uint32_t)length;
        t->bytes = (uint8_t *)bytes;
    }
    if (count >= 0)
        free(names);
    m->tables_complete = find_table(m, "DSDT") != NULL; /* Linux shows them all, or none */
}

/* ---- VT-d ---- */

static bool unit_from_memory(uint64_t address, struct unit_line *unit)
{
    int file = open("/dev/mem", O_RDONLY | O_CLOEXEC | O_SYNC);
    void *page = file < 0 ? MAP_FAILED
                          : mmap(NULL, PAGE_SIZE, PROT_READ, MAP_SHARED, file, (off_t)address);

    if (file >= 0)
        close(file);
    if (page == MAP_FAILED)
        return false;
    const volatile uint64_t *registers = page;
    *unit = (struct unit_line){address, registers[VTD_CAP / sizeof(*registers)],
                               registers[VTD_ECAP / sizeof(*registers)]};
    munmap(page, PAGE_SIZE);
    return true;
}

static bool unit_from_sysfs(uint64_t address, struct unit_line *unit)
{
    DIR *folder = opendir(IOMMU);
    bool found = false;

    for (struct dirent *e; folder != NULL && !found && (e = readdir(folder)) != NULL;) {
        char name[NAME_BYTES];

        snprintf(name, sizeof(name), "%s/intel-iommu", e->d_name);
        if (e->d_name[0] == '.' || number_in(IOMMU, name, "address") != address)
            continue;
        *unit = (struct unit_line){address, number_in(IOMMU, name, "cap"),
                                   number_in(IOMMU, name, "ecap")};
        found = true;
    }
    if (folder != NULL)
        closedir(folder);
    return found;
}

void read_units(struct machine *m)
{
    const struct table *t = find_table(m, "DMAR");
    struct dmar d;

    if (t == NULL || t->length < sizeof(uint64_t) || !dmar_read(t->bytes, &d))
        return;
    for (uint32_t i = 0; i < d.unit_count; i++) {
        struct unit_line unit;

        if (unit_from_sysfs(d.units[i].base, &unit) || unit_from_memory(d.units[i].base, &unit))
            ADD(m->units, m->unit_count) = unit;
    }
}

/* ---- firmware ---- */

void read_secure_boot(struct machine *m)
{
    size_t length;
    char *variable = file_text(SECURE_BOOT, &length);
    struct stat status;

    if (variable != NULL && length > EFIVAR_ATTRIBUTES)
        m->secure_boot = variable[EFIVAR_ATTRIBUTES] == 1 ? ON : OFF;
    free(variable);
    if (stat(EFI, &status) != 0)
        add_fact(m, "this Linux was not started by UEFI, which PMUvisor needs: change the "
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

static void read_image(struct machine *m, const char *path)
{
    size_t length;
    char *image = file_text(path, &length);
    uint32_t header = 0, size = 0;

    if (image != NULL && length >= PE_POINTER + sizeof(header))
        memcpy(&header, image + PE_POINTER, sizeof(header));
    if (header != 0 && header + (uint64_t)PE_CERTIFICATES_SIZE + sizeof(size) <= length) {
        memcpy(&size, image + header + PE_CERTIFICATES_SIZE, sizeof(size));
        m->image_signed = size != 0 ? ON : OFF;
    }
    free(image);
}

bool read_esp(struct machine *m, const char *esp, char why[WHY_MAX])
{
    static const char *const usual[] = {"/boot/efi", "/efi", "/boot"};
    struct statvfs space;

    for (unsigned i = 0; esp == NULL && i < sizeof(usual) / sizeof(usual[0]); i++)
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
        add_fact(m, "EFI system partition: %s, %llu MiB free", esp,
                 (unsigned long long)space.f_bavail * space.f_frsize >> 20);
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/" FOLDER "/pmuvisor.cfg", esp);
    m->config = file_text(path, NULL);
    snprintf(path, sizeof(path), "%s/" FOLDER "/pmuvisor.efi", esp);
    read_image(m, path);
    return true;
}
