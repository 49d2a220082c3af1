/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Fuzz target: a kernel file through the probe and the loader. Input: shape of the machine, length
 * of the command line, the file.
 */
#include "guest/linux.h"

#include <asm/bootparam.h>

#include "fuzz.h"
#include "guest/e820.h"
#include "lib/refusal.h"

#define INIT_SIZE_TRIED (1ULL << 20) /* what is larger is not loaded here */
#define DESCRIPTORS_MAX 200
#define FIRST_ADDRESS 0x100000000ULL /* of the map that is made up here */
#define STRIDE 0x10000ULL
#define CONVENTIONAL 7
#define RUNTIME_DATA 6
#define KERNEL "vmlinuz"

static struct descriptor {
    uint32_t type, padding;
    uint64_t base, virtual_base, pages, attribute;
} descriptors[DESCRIPTORS_MAX];

static void check_image(const struct linux_image *image, size_t size)
{
    CHECK(image->kernel_size != 0 && image->setup_size + image->kernel_size <= size,
          "0x%lx + 0x%lx of 0x%zx bytes", (unsigned long)image->setup_size,
          (unsigned long)image->kernel_size, size);
    CHECK(image->init_size >= image->kernel_size, "0x%lx", (unsigned long)image->init_size);
    CHECK(image->alignment >= PAGE_SIZE && (image->alignment & (image->alignment - 1)) == 0,
          "0x%lx", (unsigned long)image->alignment);
    CHECK(image->protocol >= 0x20c, "0x%x", image->protocol);
}

static bool inside(uint64_t address, struct range r)
{
    return address >= r.base && address - r.base < r.size;
}

static void check_loaded(const struct boot_info *bi, const struct linux_image *image,
                         const struct guest_entry *entry, const uint8_t *file)
{
    const struct boot_params *bp = (const struct boot_params *)(uintptr_t)entry->rsi;
    uint64_t line = bp->hdr.cmd_line_ptr | (uint64_t)bp->ext_cmd_line_ptr << 32;
    const struct range hidden[] = {bi->image, bi->pool};

    CHECK(memcmp((const void *)(uintptr_t)bi->guest_kernel.base, file + image->setup_size,
                 image->kernel_size) == 0,
          "the kernel differs");
    CHECK(inside(entry->rsi, bi->guest_setup) && inside(entry->cr3, bi->guest_setup) &&
              inside(entry->gdt_base, bi->guest_setup) && inside(entry->rsp - 8, bi->guest_setup),
          "something lies outside guest_setup");
    CHECK(entry->rip == bi->guest_kernel.base + 0x200, "RIP 0x%lx", (unsigned long)entry->rip);
    CHECK(inside(line, bi->guest_setup) &&
              strcmp((const char *)(uintptr_t)line, bi->options.append) == 0,
          "the command line");
    CHECK(bp->sentinel == 0 && bp->hdr.header == 0x53726448, "0x%x", bp->hdr.header);
    for (unsigned i = 0; i < bp->e820_entries; i++) {
        const struct boot_e820_entry *e = &bp->e820_table[i];
        CHECK(i == 0 || e[-1].addr + e[-1].size <= e->addr, "e820 entry %u", i);
        for (unsigned k = 0; k < 2; k++)
            CHECK(e->type != E820_RAM || hidden[k].base + hidden[k].size <= e->addr ||
                      e->addr + e->size <= hidden[k].base,
                  "e820 entry %u is RAM inside hidden range %u", i, k);
    }
}

static void load(const uint8_t *file, size_t size, const struct linux_image *image, uint8_t shape,
                 uint64_t count, size_t append)
{
    struct boot_info *bi = calloc(1, sizeof(*bi));
    struct guest_entry entry;
    struct refusal r = {0};

    CHECK(bi != NULL, "boot_info");
    for (uint64_t i = 0; i < count; i++)
        descriptors[i] = (struct descriptor){
            .type = i % 2 == 0 ? CONVENTIONAL : RUNTIME_DATA,
            .base = FIRST_ADDRESS + i * STRIDE,
            .pages = STRIDE / PAGE_SIZE,
        };
    options_default(&bi->options);
    memset(bi->options.append, 'a', append);
    bi->options.append[append] = '\0';
    bi->image = (struct range){FIRST_ADDRESS + PAGE_SIZE, 2 * PAGE_SIZE};
    bi->pool = (struct range){FIRST_ADDRESS + 4 * STRIDE, STRIDE};
    if (shape & 1)
        bi->initrd = (struct range){0x123456000, 0x500000001};
    if (shape & 2)
        bi->framebuffer = (struct framebuffer){.base = 0x480000000,
                                               .size = 1 << 20,
                                               .width = 640,
                                               .height = 400,
                                               .pixels_per_line = 640,
                                               .red_mask = 0xff0000,
                                               .green_mask = 0xff00};
    bi->map = (struct efi_map){.entries = descriptors,
                               .size = count * sizeof(descriptors[0]),
                               .descriptor_size = sizeof(descriptors[0]),
                               .descriptor_version = 1};
    bi->kernel = *image;
    bi->kernel_file = (struct range){(uintptr_t)file, size};
    bi->guest_kernel = (struct range){(uintptr_t)malloc(image->init_size), image->init_size};
    uint64_t setup = linux_setup_size(0, count);
    bi->guest_setup = (struct range){(uintptr_t)aligned_alloc(PAGE_SIZE, setup), setup};
    CHECK(bi->guest_kernel.base != 0 && bi->guest_setup.base != 0, "areas");
    static const struct guest_processors processors = {.count = 1};
    bool loaded = linux_load(bi, &processors, &entry, &r);
    CHECK(loaded, "%s", r.line);
    check_loaded(bi, image, &entry, file);
    free((void *)(uintptr_t)bi->guest_kernel.base);
    free((void *)(uintptr_t)bi->guest_setup.base);
    free(bi);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t shape = take_u8(&in);
    uint64_t count = take_u8(&in) % DESCRIPTORS_MAX;
    size_t append = take_u16(&in) % OPTION_APPEND_MAX;
    uint8_t *file = exactly(in.data, in.left);
    struct linux_image image;
    struct refusal r = {0};

    if (!linux_probe(file, in.left, KERNEL, &image, &r)) {
        CHECK(r.kind == REFUSE_BAD_FILE, "kind %d", r.kind);
        check_refusal(&r, "kernel " KERNEL ": ");
    } else {
        check_image(&image, in.left);
        if (image.init_size <= INIT_SIZE_TRIED)
            load(file, in.left, &image, shape, count, append);
    }
    free(file);
    return 0;
}
