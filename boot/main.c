/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The entry point that firmware calls. It reads the options, loads the files, collects facts,
 * checks them, allocates memory and then leaves firmware for good. Up to leave_firmware(), every
 * failure logs one line, frees everything and returns to firmware. (UEFI specification,
 * "EFI_IMAGE_ENTRY_POINT" and "EFI_BOOT_SERVICES.ExitBootServices".)
 */
#include <string.h>

#include "bits.h"
#include "boot/acpi.h"
#include "boot/boot.h"
#include "boot/boot_text.h"
#include "guest/linux.h"
#include "hypercall.h"
#include "image.h"
#include "vmx/hypervisor.h"
#include "x86.h"

#define CONFIG_NAME "pmuvisor.cfg"
#define CONFIG_MAX 16384 /* bytes */
#define EXIT_ATTEMPTS 8
#define MAP_SPARE 64 /* spare descriptors, because the memory map may still grow */
/* The preferred lowest address of the pool. The log in the pool has to survive a reset. So the pool
 * should lie above the memory into which firmware and kernels are unpacked, and below the top
 * quarter of memory, which GRUB takes first. */
#define POOL_PREFERRED_MIN (192 * MIB)
#define TRAMPOLINE_LIMIT 0xa0000 /* video memory and firmware lie above */

static struct boot_info boot_info;
static struct glyphs glyphs;
static uint64_t map_capacity;

/* GNU-EFI's crt0 calls this with the System V calling convention. */
EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *system);

static const EFI_STATUS status_of[] = {
    [REFUSE_UNSUPPORTED] = EFI_UNSUPPORTED,    [REFUSE_BAD_OPTION] = EFI_INVALID_PARAMETER,
    [REFUSE_NOT_FOUND] = EFI_NOT_FOUND,        [REFUSE_BAD_FILE] = EFI_LOAD_ERROR,
    [REFUSE_NO_MEMORY] = EFI_OUT_OF_RESOURCES,
};

/* ---- console ---- */

static struct serial_line choose_serial_line(uint32_t console)
{
    if (console == CONSOLE_AUTO)
        return acpi_find_serial_line(platform_find_rsdp());
    return (struct serial_line){.port = (uint16_t)console, .divisor = DIVISOR_115200};
}

/* Starts the UART, unless firmware's own text already goes to this UART. Otherwise everything would
 * be printed twice while firmware runs. Returns false if there is no UART. */
static bool start_console(uint32_t console, bool firmware_runs)
{
    struct serial_line line = choose_serial_line(console);

    return line.port == 0 || (firmware_runs && platform_console_uses_port(line.port)) ||
           serial_start(line.port, line.divisor);
}

static void log_console_warnings(uint32_t console, bool found)
{
    const struct acpi_spcr *spcr = choose_serial_line(console).unused;

    if (console != CONSOLE_AUTO && !found)
        log_printf("warning: option console: found no UART at I/O port 0x%x\n", console);
    if (spcr != NULL)
        log_printf(
            "console: ACPI's SPCR names a line of type %u at 0x%lx in address space %u, wanted "
            "a 16550 at an I/O port: COM1 is used; console= names another\n",
            spcr->interface_type, spcr->base.address, spcr->base.space_id);
}

/* ---- options ---- */

static bool read_config(struct options *o, struct refusal *r)
{
    struct range text;

    if (!file_load("configuration", CONFIG_NAME, BELOW_4G, 0, &text, r))
        return r->kind == REFUSE_NOT_FOUND; /* the file is optional */
    if (text.size > CONFIG_MAX)
        return refuse(r, REFUSE_BAD_OPTION,
                      "configuration " CONFIG_NAME ": found %lu bytes, wanted at most %u; "
                      "shorten it",
                      text.size, CONFIG_MAX);
    return options_parse(o, (const char *)(uintptr_t)text.base, text.size, CONFIG_NAME, r);
}

static bool read_load_options(struct options *o, bool *ignored, struct refusal *r)
{
    static char text[LOAD_OPTIONS_MAX];

    return load_options_to_text(firmware.loaded->LoadOptions, firmware.loaded->LoadOptionsSize,
                                files_image_path(), text, ignored, r) &&
           options_parse(o, text, strlen(text), "load options", r);
}

/* Reads the user's options, and starts the console that they choose. */
static bool read_options(struct boot_info *bi, struct refusal *r)
{
    struct options *o = &bi->options;
    bool ignored;

    options_default(o);
    if (!read_config(o, r) || !read_load_options(o, &ignored, r))
        return false;
    bool found = start_console(o->console, true);
    log_printf("PMUvisor " PMUVISOR_VERSION_TEXT ", policy %s\n", o->policy_name);
    log_console_warnings(o->console, found);
    if (ignored)
        log_printf(
            "warning: load options: found bytes that are no text, wanted KEY=VALUE ...; they "
            "are firmware's and were ignored\n");
    return true;
}

/* ---- files ---- */

static bool load_kernel(struct boot_info *bi, struct refusal *r)
{
    const struct options *o = &bi->options;

    if (!file_load("kernel", o->kernel, BELOW_4G, 0, &bi->kernel_file, r) ||
        !linux_probe((const void *)(uintptr_t)bi->kernel_file.base, bi->kernel_file.size, o->kernel,
                     &bi->kernel, r))
        return false;
    return strlen(o->append) <= bi->kernel.command_line_max ||
           refuse(r, REFUSE_BAD_OPTION,
                  "option append: found %lu characters, wanted at most the %lu that kernel %s "
                  "takes; shorten it",
                  strlen(o->append), bi->kernel.command_line_max, o->kernel);
}

static bool load_initrd(struct boot_info *bi, struct refusal *r)
{
    const char *path = bi->options.initrd;
    uint64_t limit = bi->kernel.initrd_max < BELOW_4G - 1 ? bi->kernel.initrd_max + 1 : BELOW_4G;
    uint64_t high = bi->kernel.initrd_max > BELOW_4G ? bi->kernel.initrd_max : 0;

    if (path[0] == '\0')
        return true;
    if (!file_load("initrd", path, limit, high, &bi->initrd, r))
        return false;
    return bi->initrd.size != 0 ||
           refuse(r, REFUSE_BAD_FILE,
                  "initrd %s: found an empty file, wanted an initramfs; copy it again, or say "
                  "initrd= for none",
                  path);
}

/* ---- facts ---- */

/* Collects facts about firmware and the machine. Refuses nothing. */
static void collect_platform_facts(struct boot_info *bi)
{
    bi->image = (struct range){
        .base = (uintptr_t)firmware.loaded->ImageBase,
        .size = align_up(firmware.loaded->ImageSize, PAGE_SIZE),
    };
    bi->memory_top = memory_top();
    acpi_facts_read(platform_find_rsdp(), &bi->acpi);
    acpi_warn_of_damage(bi->acpi.rsdp);
    platform_find_framebuffer(&bi->framebuffer);
    screen_read_glyphs(&glyphs);
    uint32_t processors = bi->acpi.processors > 0 ? bi->acpi.processors : 1; /* no MADT: only one */
    log_printf("platform: ACPI %s, %u processor%s, ", bi->acpi.rsdp != 0 ? "found" : "not found",
               processors, processors == 1 ? "" : "s");
    if (bi->framebuffer.base == 0)
        log_printf("no framebuffer\n");
    else
        log_printf("framebuffer %ux%u%s\n", bi->framebuffer.width, bi->framebuffer.height,
                   glyphs.width == 0 ? ", no font: no text on it after firmware" : "");
}

/* ---- memory ---- */

/* Succeeds even if it cannot allocate the trampoline. In that case, the other processors are not
 * started, and vmx/start/bring_up.c says so. */
static bool allocate_boot_memory(struct boot_info *bi, struct refusal *r)
{
    const struct need trampoline = {"a trampoline", "",        PAGE_SIZE,
                                    PAGE_SIZE,      PAGE_SIZE, TRAMPOLINE_LIMIT};
    const struct need run = {"memory to run the kernel", bi->options.kernel,   bi->kernel.init_size,
                             bi->kernel.alignment,       bi->kernel.preferred, BELOW_4G};

    (void)memory_allocate(&bi->trampoline, EfiLoaderData, &trampoline, PLACE_ANY, r);
    if (!memory_allocate(&bi->guest_kernel, EfiLoaderData, &run, PLACE_LOWEST, r) ||
        !memory_map_reserve(&bi->map, &map_capacity, MAP_SPARE, r))
        return false;
    const struct need setup = {
        "memory for the guest's boot parameters",
        "",
        linux_setup_size(bi->acpi.rsdp, map_capacity / bi->map.descriptor_size),
        PAGE_SIZE,
        MIB,
        BELOW_4G};
    if (!memory_allocate(&bi->guest_setup, EfiLoaderData, &setup, PLACE_ANY, r))
        return false;
    struct need pool = {"memory for the hypervisor", "",
                        hypervisor_pool_size(bi),    POOL_ALIGNMENT,
                        POOL_PREFERRED_MIN,          BELOW_4G};
    if (memory_allocate(&bi->pool, EfiReservedMemoryType, &pool, PLACE_LOWEST, r))
        return true;
    pool.least = MIB;
    return memory_allocate(&bi->pool, EfiReservedMemoryType, &pool, PLACE_LOWEST, r);
}

/* ---- the start ---- */

/* Takes four steps after the options: files, facts, check, memory. Each step uses what the earlier
 * steps left in *bi. */
static bool prepare_hypervisor(struct boot_info *bi, struct refusal *r)
{
    if (!load_kernel(bi, r) || !load_initrd(bi, r))
        return false;
    files_close_volume();
    collect_platform_facts(bi);
    cpuid_log_unknown_bits();
    return hypervisor_check_requirements(bi, &bi->settings, r) && allocate_boot_memory(bi, r);
}

/* Removes the screen's sink first, because firmware's console may be gone after the first call of
 * ExitBootServices. */
static bool leave_firmware(struct boot_info *bi, struct refusal *r)
{
    EFI_STATUS status = EFI_ABORTED;
    UINTN key;

    log_printf("leaving firmware\n");
    log_set_sink(LOG_SCREEN, NULL);
    for (int attempt = 0; EFI_ERROR(status) && attempt < EXIT_ATTEMPTS; attempt++) {
        status = memory_map_get(&bi->map, map_capacity, &key);
        /* Fails if an event has changed the map since the call above, because the key is then
         * stale. */
        if (!EFI_ERROR(status))
            status = firmware.services->ExitBootServices(firmware.image, key);
    }
    return !EFI_ERROR(status) ||
           refuse(r, REFUSE_UNSUPPORTED,
                  "firmware does not let go of boot services (EFI status 0x%lx), wanted success of "
                  "ExitBootServices; update the firmware",
                  status);
}

/* Frees everything, and returns `status` for firmware. */
static EFI_STATUS return_to_firmware(EFI_STATUS status, bool late)
{
    if (!late)
        files_close_volume();
    memory_free_all();
    serial_drain();
    serial_stop();
    log_set_sink(LOG_SCREEN, NULL);
    return status;
}

/* After a call of ExitBootServices (`late`), only memory services may be called. */
static EFI_STATUS refuse_start(const struct boot_info *bi, const struct refusal *r, bool late)
{
    /* The user must see a refusal even if it comes before the option console= is known. */
    (void)start_console(bi->options.console, !late);
    log_printf("PMUvisor refuses to start: %s\n", r->line);
    if (!late) {
        save_refused_start_log();
        screen_wait_for_key(bi->options.wait_s);
    }
    return return_to_firmware(status_of[r->kind], late);
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
    log_set_sink(LOG_SCREEN, screen_sink);
    bool read = read_options(&boot_info, &refusal);
    save_last_log();
    if (read && !boot_info.options.start)
        return return_to_firmware(EFI_SUCCESS, false);
    if (!read || !prepare_hypervisor(&boot_info, &refusal))
        return refuse_start(&boot_info, &refusal, false);
    if (!leave_firmware(&boot_info, &refusal))
        return refuse_start(&boot_info, &refusal, true);
    cli();
    /* Turn CET off, because the far return in descriptors_load() has no entry on firmware's shadow
     * stack. */
    write_cr4(read_cr4() & ~CR4_CET);
    /* The guest's ACPI tables are edited in place under firmware's page tables, which may map them
     * read-only. So clear CR0.WP. It is set again before VMXON (vmx/start/processor.c). WP cannot
     * be cleared while CET is on. */
    write_cr0(read_cr0() & ~CR0_WP);
    /* The UART now gets the log even if firmware's text went there. So does the screen, until the
     * guest starts. */
    (void)start_console(boot_info.options.console, false);
    framebuffer_start(&boot_info.framebuffer, &glyphs);
    hypervisor_start(&boot_info);
}
