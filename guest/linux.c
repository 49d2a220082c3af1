/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Loads Linux: kernel, boot_params, first page tables and GDT. Writes only guest_kernel,
 * guest_setup, the UEFI map for the guest and, through guest/acpi_edit.c, the ACPI tables. (Linux,
 * Documentation/arch/x86/boot.rst, "64-bit Boot Protocol"; SDM Vol. 3, "4-Level Paging and 5-Level
 * Paging" and "Segment Descriptors".)
 */
#include "guest/linux.h"

#include <string.h>

#include "console/log.h"
#include "guest/e820.h"
#include "x86.h"

#define ENTRY_64_OFFSET 0x200        /* offset of startup_64 in the kernel */
#define LOADER_UNDEFINED 0xff        /* type_of_loader for a loader without a number */
#define EFI_SIGNATURE_64 0x34364c45u /* "EL64" */
#define HEADER_END_OFFSET 0x201      /* the byte here is the header's length from 0x202 on */
#define HEADER_END_BASE 0x202

/* GiB that the first page tables map. guest_kernel and guest_setup lie below this limit. */
#define IDENTITY_GIB 4ULL

#define GDT_ENTRIES 4
#define STACK_SIZE PAGE_SIZE

/* The number of overlays of the guest's map: image, pool, ACPI copies. */
#define OVERLAYS 3

#define VIDEO_TYPE_EFI_FRAMEBUFFER 0x70 /* Linux, linux/screen_info.h: VIDEO_TYPE_EFI */

/* The parts of guest_setup that have a fixed size. */
struct setup_area {
    struct boot_params boot_params;
    uint64_t pml4[TABLE_ENTRIES];
    uint64_t pdpt[TABLE_ENTRIES];
    uint64_t pd[IDENTITY_GIB * TABLE_ENTRIES];
    uint64_t gdt[GDT_ENTRIES];
    char command_line[OPTION_APPEND_MAX];
    uint8_t stack[STACK_SIZE];
} __attribute__((aligned(PAGE_SIZE)));
_Static_assert(sizeof(struct boot_params) == PAGE_SIZE, "the page tables are page-aligned");

/* The parts that follow struct setup_area. The ACPI copies have their own pages. */
struct setup_layout {
    struct range acpi;
    uint64_t e820_extra; /* address of a struct setup_data */
    uint64_t end;
};

static struct setup_layout plan_setup_layout(uint64_t base, uint64_t rsdp, uint64_t map_descriptors)
{
    uint64_t acpi = base + sizeof(struct setup_area);
    uint64_t acpi_size = align_up(guest_acpi_size(rsdp), PAGE_SIZE);
    uint64_t extra_size = sizeof(struct setup_data) + e820_entries_max(map_descriptors, OVERLAYS) *
                                                          sizeof(struct boot_e820_entry);

    return (struct setup_layout){
        .acpi = {acpi, acpi_size},
        .e820_extra = acpi + acpi_size,
        .end = acpi + acpi_size + align_up(extra_size, PAGE_SIZE),
    };
}

uint64_t linux_setup_size(uint64_t rsdp, uint64_t map_descriptors)
{
    return plan_setup_layout(0, rsdp, map_descriptors).end;
}

/* ---- boot_params ---- */

/* Copies the file's setup header, up to the header's end. The rest of boot_params is already
 * zero. */
static void copy_header(struct boot_params *bp, const uint8_t *file)
{
    uint64_t start = offsetof(struct boot_params, hdr);
    uint64_t size = HEADER_END_BASE + file[HEADER_END_OFFSET] - start;

    memcpy(&bp->hdr, file + start, size < sizeof(bp->hdr) ? size : sizeof(bp->hdr));
    bp->hdr.type_of_loader = LOADER_UNDEFINED;
}

static void set_boot_parameter_addresses(struct setup_area *area, const struct boot_info *bi)
{
    struct boot_params *bp = &area->boot_params;
    uint64_t command_line = (uintptr_t)area->command_line;

    memcpy(area->command_line, bi->options.append, sizeof(area->command_line));
    bp->hdr.cmd_line_ptr = (uint32_t)command_line;
    bp->ext_cmd_line_ptr = (uint32_t)(command_line >> 32);
    if (bi->initrd.size != 0) {
        bp->hdr.ramdisk_image = (uint32_t)bi->initrd.base;
        bp->ext_ramdisk_image = (uint32_t)(bi->initrd.base >> 32);
        bp->hdr.ramdisk_size = (uint32_t)bi->initrd.size;
        bp->ext_ramdisk_size = (uint32_t)(bi->initrd.size >> 32);
    }
    bp->acpi_rsdp_addr = bi->acpi.rsdp;
}

/* secure_boot stays "unset", because nothing here checks a kernel's signature. So the kernel does
 * not lock itself down, even if Secure Boot is on and this image is signed. */
static void set_efi_info(struct boot_params *bp, const struct efi_map *map)
{
    uint64_t entries = (uintptr_t)map->entries;

    bp->efi_info = (struct efi_info){
        .efi_loader_signature = EFI_SIGNATURE_64,
        .efi_systab = (uint32_t)map->system_table,
        .efi_systab_hi = (uint32_t)(map->system_table >> 32),
        .efi_memdesc_size = (uint32_t)map->descriptor_size,
        .efi_memdesc_version = map->descriptor_version,
        .efi_memmap = (uint32_t)entries,
        .efi_memmap_hi = (uint32_t)(entries >> 32),
        .efi_memmap_size = (uint32_t)map->size,
    };
}

/* Stores the size and position of a colour in a pixel. A colour's bits are contiguous. */
static void set_colour_field(uint32_t mask, __u8 *size, __u8 *position)
{
    *position = mask != 0 ? (__u8)__builtin_ctz(mask) : 0;
    *size = mask != 0 ? (__u8)(32 - __builtin_clz(mask) - *position) : 0;
}

static void set_screen_info(struct screen_info *s, const struct framebuffer *fb)
{
    if (fb->base == 0)
        return;
    uint32_t line = fb->pixels_per_line * (uint32_t)sizeof(uint32_t);
    /* Set VIDEO_CAPABILITY_SKIP_QUIRKS, so that Linux does not use its list of known machines: the
     * numbers here come from firmware, and are better. */
    *s = (struct screen_info){
        .orig_video_isVGA = VIDEO_TYPE_EFI_FRAMEBUFFER,
        .lfb_width = (__u16)fb->width,
        .lfb_height = (__u16)fb->height,
        .lfb_depth = 32,
        .lfb_linelength = (__u16)line,
        .lfb_base = (__u32)fb->base,
        .ext_lfb_base = (__u32)(fb->base >> 32),
        .lfb_size = line * fb->height,
        .pages = 1,
        .capabilities = VIDEO_CAPABILITY_SKIP_QUIRKS |
                        (fb->base >> 32 != 0 ? VIDEO_CAPABILITY_64BIT_BASE : 0),
    };
    set_colour_field(fb->red_mask, &s->red_size, &s->red_pos);
    set_colour_field(fb->green_mask, &s->green_size, &s->green_pos);
    set_colour_field(fb->blue_mask, &s->blue_size, &s->blue_pos);
    set_colour_field(fb->reserved_mask, &s->rsvd_size, &s->rsvd_pos);
}

/* Puts the e820 table into boot_params, and entries that do not fit there into a setup_data node.
 * First builds the whole table in the node's area, which has room for the largest table that the
 * map can need (plan_setup_layout()). */
static bool set_e820_table(struct boot_params *bp, const struct boot_info *bi,
                           const struct setup_layout *l, uint64_t *count)
{
    const struct e820_overlay overlays[OVERLAYS] = {
        {bi->image, E820_RESERVED},
        {bi->pool, E820_RESERVED},
        {l->acpi, E820_ACPI},
    };
    struct setup_data *extra = (struct setup_data *)(uintptr_t)l->e820_extra;
    struct boot_e820_entry *table = (struct boot_e820_entry *)extra->data;
    uint64_t end = bi->guest_setup.base + bi->guest_setup.size;
    uint64_t room = (end - (uintptr_t)table) / sizeof(*table);

    *count = e820_build(&bi->map, overlays, OVERLAYS, table, room);
    if (*count > room)
        return false;
    uint64_t first = *count < E820_MAX_ENTRIES_ZEROPAGE ? *count : E820_MAX_ENTRIES_ZEROPAGE;
    memcpy(bp->e820_table, table, first * sizeof(*table));
    bp->e820_entries = (__u8)first;
    if (*count > first) {
        uint64_t rest = (*count - first) * sizeof(*table);
        memmove(table, table + first, rest);
        *extra = (struct setup_data){.next = 0, .type = SETUP_E820_EXT, .len = (__u32)rest};
        bp->hdr.setup_data = (uintptr_t)extra;
    }
    return true;
}

/* ---- page tables and GDT at the entry ---- */

/* Maps the first IDENTITY_GIB GiB to themselves with 2 MiB pages. */
static void build_page_tables(struct setup_area *area)
{
    area->pml4[0] = (uintptr_t)area->pdpt | PTE_P | PTE_RW;
    for (uint64_t i = 0; i < IDENTITY_GIB; i++)
        area->pdpt[i] = (uintptr_t)&area->pd[i * TABLE_ENTRIES] | PTE_P | PTE_RW;
    for (uint64_t i = 0; i < IDENTITY_GIB * TABLE_ENTRIES; i++)
        area->pd[i] = i * SIZE_2M | PTE_P | PTE_RW | PTE_PS;
}

static void build_gdt(uint64_t *gdt)
{
    gdt[LINUX_BOOT_CS / sizeof(*gdt)] = GDT_CODE_64;
    gdt[LINUX_BOOT_DS / sizeof(*gdt)] = GDT_DATA;
}

/* Refuses if processors other than `processors` stay enabled. A processor that the guest could
 * start would run outside VMX operation and could reach all of the hypervisor's memory. */
static bool edit_acpi(const struct boot_info *bi, struct range copies,
                      const struct guest_processors *processors, struct refusal *r)
{
    struct guest_acpi_result done = guest_acpi_edit(bi->acpi.rsdp, processors,
                                                    get_reset_doorbell(bi),
                                                    (void *)(uintptr_t)copies.base, copies.size);

    if (!done.processors_limited && bi->acpi.processors > processors->count)
        return refuse(r, REFUSE_UNSUPPORTED,
                      "guest: found %u processors in the ACPI MADT and no way to disable all but "
                      "%u, wanted those listed and the XSDT or RSDT writable; turn the other "
                      "processors off in the firmware's setup",
                      bi->acpi.processors, processors->count);
    if (bi->acpi.reset_supported && !done.reset_watched)
        log_printf("guest: the ACPI reset register could not be moved: a reset will not be "
                   "reported\n");
    return true;
}

bool linux_load(const struct boot_info *bi, const struct guest_processors *processors,
                struct guest_entry *entry, struct refusal *r)
{
    const uint8_t *file = (const uint8_t *)(uintptr_t)bi->kernel_file.base;
    const struct range hidden[] = {bi->image, bi->pool};
    struct setup_area *area = (struct setup_area *)(uintptr_t)bi->guest_setup.base;
    struct setup_layout l = plan_setup_layout(bi->guest_setup.base, bi->acpi.rsdp, 0);
    uint64_t setup_size = l.end - bi->guest_setup.base;
    struct efi_map map = bi->map;
    uint64_t e820_entries;

    if (setup_size > bi->guest_setup.size || bi->kernel.init_size > bi->guest_kernel.size)
        return refuse(r, REFUSE_NO_MEMORY,
                      "guest: found 0x%lx bytes of setup area and 0x%lx of kernel area, wanted "
                      "0x%lx and 0x%lx; report this as a bug of PMUvisor",
                      bi->guest_setup.size, bi->guest_kernel.size, setup_size,
                      bi->kernel.init_size);

    memset(area, 0, bi->guest_setup.size);
    memcpy((void *)(uintptr_t)bi->guest_kernel.base, file + bi->kernel.setup_size,
           bi->kernel.kernel_size);

    copy_header(&area->boot_params, file);
    set_boot_parameter_addresses(area, bi);
    set_efi_info(&area->boot_params, &bi->map);
    set_screen_info(&area->boot_params.screen_info, &bi->framebuffer);
    if (!set_e820_table(&area->boot_params, bi, &l, &e820_entries))
        return refuse(r, REFUSE_NO_MEMORY,
                      "guest: found a memory map that needs more e820 entries than there is room "
                      "for in 0x%lx bytes; report this as a bug of PMUvisor",
                      bi->guest_setup.size);
    efi_map_hide(&map, hidden, LENGTH_OF(hidden));
    if (!edit_acpi(bi, l.acpi, processors, r))
        return false;

    build_page_tables(area);
    build_gdt(area->gdt);
    *entry = (struct guest_entry){
        .rip = bi->guest_kernel.base + ENTRY_64_OFFSET,
        .rsi = (uintptr_t)&area->boot_params,
        .rsp = (uintptr_t)(area + 1),
        .cr3 = (uintptr_t)area->pml4,
        .gdt_base = (uintptr_t)area->gdt,
        .gdt_limit = sizeof(area->gdt) - 1,
        .cs = LINUX_BOOT_CS,
        .ds = LINUX_BOOT_DS,
    };
    log_printf("guest: kernel at 0x%lx (%lu KiB), initrd at 0x%lx (%lu KiB), %lu e820 entries\n",
               bi->guest_kernel.base, bi->kernel.kernel_size >> 10, bi->initrd.base,
               bi->initrd.size >> 10, e820_entries);
    return true;
}
