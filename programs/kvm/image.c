/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Lays a kernel and its boot_params out in a virtual machine's memory; knows no KVM.
 * (Linux, Documentation/arch/x86/boot.rst, "32-bit Boot Protocol", "The Zero Page".)
 */
#include "image.h"

#include <asm/bootparam.h>
#include <stddef.h>
#include <string.h>

#include "guest/e820.h"
#include "guest/linux.h"

#define GDT_ADDRESS 0x1000u
#define BOOT_PARAMS_ADDRESS 0x10000u
#define COMMAND_LINE_ADDRESS 0x20000u
#define COMMAND_LINE_LIMIT 0x10000u
#define LOW_MEMORY_END 0x9fc00u /* where a BIOS keeps its data area */
#define HIGH_MEMORY 0x100000u
#define LOADER_UNDEFINED 0xff
#define SELECTOR_INDEX(selector) ((selector) / sizeof(uint64_t))
#define GDT_ENTRIES (SELECTOR_INDEX(LINUX_BOOT_DS) + 1)
/* SDM Vol. 3, "Segment Descriptors": flat, 4 GiB, 32-bit, accessed. */
#define DESCRIPTOR_CODE 0x00cf9b000000ffffull
#define DESCRIPTOR_DATA 0x00cf93000000ffffull

static uint64_t page_up(uint64_t size)
{
    return (size + PAGE_SIZE - 1) & ~(uint64_t)(PAGE_SIZE - 1);
}

static bool check_fits(const struct linux_image *image, uint64_t at, uint64_t memory_size,
                       uint64_t initrd_size, size_t line, const char *name, struct refusal *r)
{
    uint64_t line_max = image->command_line_max;
    uint64_t wanted = at + image->init_size + page_up(initrd_size);

    if (wanted > memory_size)
        return refuse(r, REFUSE_NO_MEMORY,
                      "kernel %s: found %lu MiB of memory, wanted at least %lu; raise --memory",
                      name, (unsigned long)(memory_size >> 20),
                      (unsigned long)((wanted + (1 << 20) - 1) >> 20));
    if (line_max > COMMAND_LINE_LIMIT - 1)
        line_max = COMMAND_LINE_LIMIT - 1;
    if (line > line_max)
        return refuse(r, REFUSE_BAD_OPTION,
                      "kernel %s: found a command line of %lu characters, wanted at most %lu; "
                      "shorten --append",
                      name, (unsigned long)line, (unsigned long)line_max);
    return true;
}

static void add_memory(struct boot_params *bp, uint64_t start, uint64_t end)
{
    bp->e820_table[bp->e820_entries++] = (struct boot_e820_entry){start, end - start, E820_RAM};
}

static void add_initrd(struct boot_params *bp, uint8_t *memory, uint64_t end,
                       const struct image_file *initrd)
{
    uint64_t at = end - page_up(initrd->size);

    memcpy(memory + at, initrd->data, initrd->size);
    bp->hdr.ramdisk_image = (uint32_t)at;
    bp->hdr.ramdisk_size = (uint32_t)initrd->size;
}

bool image_place(uint8_t *memory, uint64_t memory_size, const struct image_file *kernel,
                 const struct image_file *initrd, const char *command_line,
                 struct image_entry *entry, struct refusal *r)
{
    const uint8_t *file = kernel->data;
    struct boot_params *bp = (void *)(memory + BOOT_PARAMS_ADDRESS);
    uint64_t gdt[GDT_ENTRIES] = {
        [SELECTOR_INDEX(LINUX_BOOT_CS)] = DESCRIPTOR_CODE,
        [SELECTOR_INDEX(LINUX_BOOT_DS)] = DESCRIPTOR_DATA,
    };
    struct linux_image image;
    uint64_t end = memory_size;
    size_t line = strlen(command_line);

    if (!linux_probe(file, kernel->size, kernel->name, &image, r))
        return false;
    if (end - 1 > image.initrd_max)
        end = image.initrd_max + 1;
    uint64_t at = image.preferred > HIGH_MEMORY ? image.preferred : HIGH_MEMORY;
    at = (at + image.alignment - 1) & ~(image.alignment - 1);
    if (!check_fits(&image, at, end, initrd->size, line, kernel->name, r))
        return false;

    memcpy(memory + at, file + image.setup_size, image.kernel_size);
    memcpy(memory + COMMAND_LINE_ADDRESS, command_line, line + 1);
    memcpy(memory + GDT_ADDRESS, gdt, sizeof(gdt));
    memcpy(&bp->hdr, file + offsetof(struct boot_params, hdr), sizeof(bp->hdr));
    bp->hdr.type_of_loader = LOADER_UNDEFINED;
    bp->hdr.code32_start = (uint32_t)at;
    bp->hdr.cmd_line_ptr = COMMAND_LINE_ADDRESS;
    add_memory(bp, 0, LOW_MEMORY_END);
    add_memory(bp, HIGH_MEMORY, memory_size);
    if (initrd->size != 0)
        add_initrd(bp, memory, end, initrd);
    *entry = (struct image_entry){
        .eip = (uint32_t)at,
        .esi = BOOT_PARAMS_ADDRESS,
        .gdt_base = GDT_ADDRESS,
        .gdt_limit = sizeof(gdt) - 1,
    };
    return true;
}
