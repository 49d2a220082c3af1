/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The entry from firmware: options, files, facts, checks, memory; then it leaves firmware for good.
 * Up to leave_firmware() every failure ends in one line and a return to firmware with everything
 * given back. (UEFI specification, "EFI_IMAGE_ENTRY_POINT" and
 * "EFI_BOOT_SERVICES.ExitBootServices".)
 */
#include <string.h>

#include "acpi.h"
#include "boot.h"
#include "boot_text.h"
#include "guest/linux.h"
#include "hypercall.h"
#include "hypervisor.h"
#include "image.h"
#include "x86.h"

#define CONFIG_NAME "pmuvisor.cfg"
#define CONFIG_MAX 16384 /* bytes */
#define EXIT_ATTEMPTS 8
#define MAP_SPARE 64 /* descriptors by which the memory map may still grow */
#define POOL_ALIGNMENT (2 * MIB)
#define TRAMPOLINE_LIMIT 0xa0000 /* above it are video memory and firmware */

struct firmware firmware;
static struct boot_info boot_info;
static struct glyphs glyphs;
static uint64_t map_capacity;

/* crt0 of GNU-EFI calls this by the System V convention. */
EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *system);

static EFI_STATUS status_of(enum refusal_kind kind)
{
    switch (kind) {
    case REFUSE_UNSUPPORTED:
        return EFI_UNSUPPORTED;
    case REFUSE_BAD_OPTION:
        return EFI_INVALID_PARAMETER;
    case REFUSE_NOT_FOUND:
        return EFI_NOT_FOUND;
    case REFUSE_BAD_FILE:
        return EFI_LOAD_ERROR;
    case REFUSE_NO_MEMORY:
        return EFI_OUT_OF_RESOURCES;
    }
    return EFI_ABORTED;
}

/* ---- console ---- */

static uint16_t console_port(enum console console)
{
    return console == CONSOLE_COM2 ? SERIAL_COM2 : SERIAL_COM1;
}

/* While firmware lives its text may go to the same UART: nothing is to come twice. */
static void start_console(enum console console)
{
    if (console == CONSOLE_NONE || platform_console_uses(console_port(console)))
        return;
    serial_start(console_port(console));
}

/* After firmware: the UART in any case, and the screen until the guest starts. */
static void start_own_console(const struct boot_info *bi)
{
    log_remove_sink(screen_sink);
    if (bi->options.console != CONSOLE_NONE)
        serial_start(console_port(bi->options.console));
    framebuffer_start(&bi->framebuffer, &glyphs);
}

/* ---- options ---- */

static bool read_config(struct options *o, struct refusal *r)
{
    static char text[CONFIG_MAX];
    struct file file;

    if (!file_open("configuration", CONFIG_NAME, &file, r))
        return r->kind == REFUSE_NOT_FOUND; /* it need not be there */
    if (file.size > sizeof(text)) {
        file_close(&file);
        return refuse(r, REFUSE_BAD_OPTION,
                      "configuration " CONFIG_NAME ": found %lu bytes, wanted at most %u; "
                      "shorten it",
                      (unsigned long)file.size, CONFIG_MAX);
    }
    uint64_t size = file.size;
    return file_read("configuration", CONFIG_NAME, &file, text, r) &&
           options_parse(o, text, size, CONFIG_NAME, r);
}

static bool read_options(struct options *o, struct refusal *r)
{
    static char text[LOAD_OPTIONS_MAX];

    options_default(o);
    return read_config(o, r) &&
           load_options_text(firmware.loaded->LoadOptions, firmware.loaded->LoadOptionsSize,
                             files_image_path(), text, r) &&
           options_parse(o, text, strlen(text), "load options", r);
}

/* ---- files ---- */

/* What a block of memory has to be. */
struct need {
    uint64_t size;
    uint64_t alignment;
    uint64_t least, limit; /* addresses, the second exclusive */
};

/* `what` is there for `path` (may be "") and no free block is as `n` says. */
static bool no_memory(struct refusal *r, const char *what, const char *path, const struct need *n)
{
    return refuse(r, REFUSE_NO_MEMORY,
                  "%s%s%s: found %lu KiB as the largest free block from 0x%lx to 0x%lx aligned to "
                  "%lu KiB, wanted %lu KiB; use a machine with more memory or a smaller file",
                  what, path[0] == '\0' ? "" : " ", path,
                  (unsigned long)(memory_largest(n->alignment, n->least, n->limit) / KIB),
                  (unsigned long)n->least, (unsigned long)(n->limit - 1),
                  (unsigned long)(n->alignment / KIB),
                  (unsigned long)((n->size + KIB - 1) / KIB));
}

static bool allocate(struct range *out, EFI_MEMORY_TYPE type, const struct need *n,
                     enum place place)
{
    return !EFI_ERROR(memory_allocate(type, n->size, n->alignment, n->least, n->limit, place, out));
}

static bool load_kernel(struct boot_info *bi, struct linux_image *image, struct refusal *r)
{
    const char *path = bi->options.kernel;
    struct file file;

    if (!file_open("kernel", path, &file, r))
        return false;
    uint64_t size = file.size;
    if (size == 0) {
        file_close(&file);
        return linux_probe(NULL, 0, path, image, r);
    }
    const struct need need = {size, PAGE_SIZE, MIB, BELOW_4G};
    if (!allocate(&bi->kernel_file, EfiLoaderData, &need, PLACE_HIGHEST)) {
        file_close(&file);
        return no_memory(r, "kernel", path, &need);
    }
    bi->kernel_file.size = size;
    return file_read("kernel", path, &file, (void *)(uintptr_t)bi->kernel_file.base, r) &&
           linux_probe((const void *)(uintptr_t)bi->kernel_file.base, size, path, image, r);
}

static bool load_initrd(struct boot_info *bi, const struct linux_image *image, struct refusal *r)
{
    const char *path = bi->options.initrd;
    uint64_t limit = image->initrd_max < BELOW_4G - 1 ? image->initrd_max + 1 : BELOW_4G;
    struct file file;

    if (path[0] == '\0')
        return true;
    if (!file_open("initrd", path, &file, r))
        return false;
    uint64_t size = file.size;
    if (size == 0) {
        file_close(&file);
        return refuse(r, REFUSE_BAD_FILE,
                      "initrd %s: found an empty file, wanted an initramfs; copy it again, or say "
                      "initrd= for none",
                      path);
    }
    struct need need = {size, PAGE_SIZE, MIB, limit};
    bool ok = allocate(&bi->initrd, EfiLoaderData, &need, PLACE_HIGHEST);
    if (!ok && image->initrd_max > BELOW_4G) {
        need.limit = image->initrd_max;
        ok = allocate(&bi->initrd, EfiLoaderData, &need, PLACE_LOWEST);
    }
    if (!ok) {
        file_close(&file);
        return no_memory(r, "initrd", path, &need);
    }
    bi->initrd.size = size;
    return file_read("initrd", path, &file, (void *)(uintptr_t)bi->initrd.base, r);
}

static bool check_command_line(const struct boot_info *bi, const struct linux_image *image,
                               struct refusal *r)
{
    uint64_t length = strlen(bi->options.append);

    if (length <= image->command_line_max)
        return true;
    return refuse(r, REFUSE_BAD_OPTION,
                  "option append: found %lu characters, wanted at most the %lu that kernel %s "
                  "takes; shorten it",
                  (unsigned long)length, (unsigned long)image->command_line_max,
                  bi->options.kernel);
}

/* ---- memory ---- */

static bool allocate_guest(struct boot_info *bi, const struct linux_image *image,
                           struct refusal *r)
{
    const struct need run = {image->init_size, image->alignment, image->preferred, BELOW_4G};
    struct need need = {PAGE_SIZE, PAGE_SIZE, MIB, BELOW_4G};

    if (!allocate(&bi->guest_kernel, EfiLoaderData, &run, PLACE_LOWEST))
        return no_memory(r, "memory to run the kernel", bi->options.kernel, &run);
    if (EFI_ERROR(memory_map_reserve(&bi->map, &map_capacity, MAP_SPARE)))
        return no_memory(r, "memory for the memory map", "", &need);
    need.size = linux_setup_size(&bi->options, bi->acpi.rsdp,
                                 map_capacity / bi->map.descriptor_size);
    if (!allocate(&bi->guest_setup, EfiLoaderData, &need, PLACE_HIGHEST))
        return no_memory(r, "memory for the guest's boot parameters", "", &need);
    return true;
}

static bool allocate_pool(struct boot_info *bi, struct refusal *r)
{
    const struct need need = {hypervisor_pool_size(bi), POOL_ALIGNMENT, MIB, BELOW_4G};

    return allocate(&bi->pool, EfiReservedMemoryType, &need, PLACE_HIGHEST) ||
           no_memory(r, "memory for the hypervisor", "", &need);
}

/* Without one the other processors stay off (vmx/processor.c says so). */
static void allocate_trampoline(struct boot_info *bi)
{
    const struct need need = {PAGE_SIZE, PAGE_SIZE, PAGE_SIZE, TRAMPOLINE_LIMIT};

    (void)allocate(&bi->trampoline, EfiLoaderData, &need, PLACE_HIGHEST);
}

/* ---- the way ---- */

static void collect_facts(struct boot_info *bi)
{
    bi->image = (struct range){
        .base = (uintptr_t)firmware.loaded->ImageBase,
        .size = (firmware.loaded->ImageSize + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1),
    };
    bi->memory_top = memory_top();
    acpi_facts_read(platform_rsdp(), &bi->acpi);
    platform_framebuffer(&bi->framebuffer);
    screen_glyphs(&glyphs);
    uint32_t processors = bi->acpi.processors > 0 ? bi->acpi.processors : 1; /* no MADT: this one */
    log_printf("platform: ACPI %s, %u processor%s, ", bi->acpi.rsdp != 0 ? "found" : "not found",
               processors, processors == 1 ? "" : "s");
    if (bi->framebuffer.base == 0)
        log_printf("no framebuffer\n");
    else
        log_printf("framebuffer %ux%u%s\n", bi->framebuffer.width, bi->framebuffer.height,
                   glyphs.width == 0 ? ", no font: no text on it after firmware" : "");
}

static bool prepare(struct boot_info *bi, struct refusal *r)
{
    struct linux_image image;

    if (!read_options(&bi->options, r))
        return false;
    start_console(bi->options.console);
    log_printf("PMUvisor " PMUVISOR_VERSION_TEXT ", policy %s\n", policy_name(bi->options.policy));
    if (!load_kernel(bi, &image, r) || !check_command_line(bi, &image, r) ||
        !load_initrd(bi, &image, r))
        return false;
    files_finish();
    collect_facts(bi);
    allocate_trampoline(bi);
    return allocate_guest(bi, &image, r) && hypervisor_check(bi, r) &&
           allocate_pool(bi, r);
}

/* From the first call of ExitBootServices on firmware's console may be gone: the screen's sink is
 * out before. */
static EFI_STATUS leave_firmware(struct boot_info *bi)
{
    EFI_STATUS status = EFI_ABORTED;
    UINTN key;

    for (int attempt = 0; attempt < EXIT_ATTEMPTS; attempt++) {
        status = memory_map_get(&bi->map, map_capacity, &key);
        if (EFI_ERROR(status))
            return status;
        /* Fails with a stale key when an event changed the map in between. */
        status = firmware.services->ExitBootServices(firmware.image, key);
        if (!EFI_ERROR(status))
            return EFI_SUCCESS;
    }
    return status;
}

/* A refusal that comes before the option console= is known still has to be read. */
static EFI_STATUS give_up(const struct boot_info *bi, const struct refusal *r)
{
    start_console(bi->options.console);
    log_printf("PMUvisor refuses to start: %s\n", r->line);
    files_finish();
    memory_free_all();
    serial_drain();
    serial_stop();
    log_remove_sink(screen_sink);
    return status_of(r->kind);
}

/* Once ExitBootServices was called, only memory services may be. */
static void give_up_late(const struct boot_info *bi, const struct refusal *r)
{
    if (bi->options.console != CONSOLE_NONE)
        serial_start(console_port(bi->options.console));
    log_printf("PMUvisor refuses to start: %s\n", r->line);
    memory_free_all();
    serial_drain();
    serial_stop();
}

EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *system)
{
    EFI_GUID loaded_image = LOADED_IMAGE_PROTOCOL;
    struct refusal refusal;

    memset(image_bss_start, 0, (uintptr_t)image_bss_end - (uintptr_t)image_bss_start);
    firmware = (struct firmware){
        .image = image, .system = system, .services = system->BootServices};
    EFI_STATUS status = firmware.services->HandleProtocol(image, &loaded_image,
                                                          (void **)&firmware.loaded);
    if (EFI_ERROR(status))
        return status;
    log_add_sink(screen_sink);
    if (!prepare(&boot_info, &refusal))
        return give_up(&boot_info, &refusal);

    log_printf("leaving firmware\n");
    log_remove_sink(screen_sink);
    status = leave_firmware(&boot_info);
    if (EFI_ERROR(status)) {
        refuse(&refusal, REFUSE_UNSUPPORTED,
               "firmware does not let go of boot services (EFI status 0x%lx), wanted success of "
               "ExitBootServices; update the firmware",
               (unsigned long)status);
        give_up_late(&boot_info, &refusal);
        return status;
    }
    cli();
    /* The guest's ACPI tables are edited in place, on firmware's page tables: it may have mapped
     * them read-only. CR0.WP comes back with VMX operation. (CET would forbid it.) */
    if (!(read_cr4() & CR4_CET))
        write_cr0(read_cr0() & ~CR0_WP);
    start_own_console(&boot_info);
    hypervisor_start(&boot_info);
}
