/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests of loading Linux: what the kernel is told, with few and with many memory map entries,
 * and the state that the processor is to have at its entry.
 */
#define TEARDOWN teardown
#include "unit.h"

#include "guest/e820.h"
#include "guest/linux.h"
#include "kernel_file.h"
#include "lib/refusal.h"

#define SETUP_SIZE 1024 /* one setup sector after the boot sector */
#define KERNEL_SIZE 4096
#define INIT_SIZE 16384
#define DESCRIPTORS_MAX 1500
#define LOADER_DATA 2
#define CONVENTIONAL 7
#define RUNTIME_DATA 6
#define FIRST_ADDRESS 0x100000000ULL /* of the map that is made up here */

static struct descriptor {
    uint32_t type, padding;
    uint64_t base, virtual_base, pages, attribute;
} descriptors[DESCRIPTORS_MAX];

static uint8_t *file, *kernel, *area;
static struct boot_info bi;

/* Areas end where malloc's do, so that ASan sees a write past them. */
static void prepare(uint64_t descriptor_count)
{
    for (uint64_t i = 0; i < descriptor_count; i++)
        descriptors[i] = (struct descriptor){
            .type = i % 2 == 0 ? CONVENTIONAL : RUNTIME_DATA,
            .base = FIRST_ADDRESS + i * 0x10000,
            .pages = 16,
        };
    bi = (struct boot_info){
        .image = {FIRST_ADDRESS + 0x1000, 0x2000},
        .pool = {FIRST_ADDRESS + 0x40000, 0x10000},
        .initrd = {0x123456000, 0x500000001},
        .map = {.entries = descriptors,
                .size = descriptor_count * sizeof(descriptors[0]),
                .descriptor_size = sizeof(descriptors[0]),
                .descriptor_version = 1,
                .system_table = 0x7000000089},
        .framebuffer = {.base = 0x480000000,
                        .size = 800 * 600 * 4,
                        .width = 800,
                        .height = 600,
                        .pixels_per_line = 832,
                        .red_mask = 0xff0000,
                        .green_mask = 0xff00,
                        .blue_mask = 0xff,
                        .reserved_mask = 0xff000000},
    };
    options_default(&bi.options);
    strcpy(bi.options.append, "console=ttyS0 quiet");

    file = calloc(1, SETUP_SIZE + KERNEL_SIZE);
    struct setup_header h = kernel_header(1, KERNEL_SIZE);
    h.kernel_alignment = 0x1000;
    h.init_size = INIT_SIZE;
    memset(file, 0xee, SETUP_SIZE); /* what is not header must not get into boot_params */
    memcpy(file + HEADER_OFFSET, &h, sizeof(h));
    for (int i = 0; i < KERNEL_SIZE; i++)
        file[SETUP_SIZE + i] = (uint8_t)(i * 7);
    bi.kernel_file = (struct range){(uintptr_t)file, SETUP_SIZE + KERNEL_SIZE};

    struct refusal r;
    assert_true(linux_probe(file, SETUP_SIZE + KERNEL_SIZE, "k", &bi.kernel, &r));
    kernel = malloc(INIT_SIZE);
    bi.guest_kernel = (struct range){(uintptr_t)kernel, INIT_SIZE};
    uint64_t size = linux_setup_size(0, descriptor_count);
    area = aligned_alloc(4096, size);
    memset(area, 0xdd, size);
    bi.guest_setup = (struct range){(uintptr_t)area, size};
}

static int teardown(void **state)
{
    (void)state;
    free(file);
    free(kernel);
    free(area);
    return 0;
}

static const struct guest_processors processors = {.count = 1, .apic_id = {0}};

static const struct boot_params *load(struct guest_entry *entry)
{
    struct refusal r = {0};
    if (!linux_load(&bi, &processors, entry, &r))
        fail_msg("refused: %s", r.line);
    return (const struct boot_params *)(uintptr_t)entry->rsi;
}

TEST(test_told)
{
    struct guest_entry entry;
    prepare(4);
    const struct boot_params *bp = load(&entry);

    assert_memory_equal(kernel, file + SETUP_SIZE, KERNEL_SIZE);
    assert_int_equal(bp->hdr.header, 0x53726448);
    assert_int_equal(bp->hdr.type_of_loader, 0xff);
    assert_int_equal(bp->sentinel, 0);
    for (const uint8_t *p = (const uint8_t *)&bp->hdr + sizeof(bp->hdr);
         p < (const uint8_t *)bp->edd_mbr_sig_buffer; p++)
        assert_int_equal(*p, 0);

    uint64_t line = bp->hdr.cmd_line_ptr | (uint64_t)bp->ext_cmd_line_ptr << 32;
    assert_string_equal((const char *)(uintptr_t)line, "console=ttyS0 quiet");
    assert_int_equal(bp->hdr.ramdisk_image, 0x23456000);
    assert_int_equal(bp->ext_ramdisk_image, 1);
    assert_int_equal(bp->hdr.ramdisk_size, 1);
    assert_int_equal(bp->ext_ramdisk_size, 5);

    assert_memory_equal(&bp->efi_info.efi_loader_signature, "EL64", 4);
    assert_int_equal(bp->efi_info.efi_systab, 0x89);
    assert_int_equal(bp->efi_info.efi_systab_hi, 0x70);
    assert_int_equal(bp->efi_info.efi_memmap_size, 4 * sizeof(descriptors[0]));
    assert_int_equal(bp->efi_info.efi_memdesc_size, sizeof(descriptors[0]));
    assert_int_equal(bp->efi_info.efi_memdesc_version, 1);
    assert_int_equal(bp->efi_info.efi_memmap | (uint64_t)bp->efi_info.efi_memmap_hi << 32,
                     (uintptr_t)descriptors);

    const struct screen_info *s = &bp->screen_info;
    assert_int_equal(s->orig_video_isVGA, 0x70);
    assert_int_equal(s->lfb_base, 0x80000000);
    assert_int_equal(s->ext_lfb_base, 4);
    assert_int_equal(s->capabilities, VIDEO_CAPABILITY_SKIP_QUIRKS | VIDEO_CAPABILITY_64BIT_BASE);
    assert_int_equal(s->lfb_width, 800);
    assert_int_equal(s->lfb_linelength, 832 * 4);
    assert_int_equal(s->lfb_size, 832 * 4 * 600);
    assert_int_equal(s->red_pos, 16);
    assert_int_equal(s->red_size, 8);
    assert_int_equal(s->blue_pos, 0);
    assert_int_equal(s->rsvd_pos, 24);
}

TEST(test_hidden)
{
    struct guest_entry entry;
    prepare(6);
    descriptors[4].type = LOADER_DATA;
    const struct boot_params *bp = load(&entry);

    /* Image inside the first descriptor, pool all of the fifth. */
    static const struct boot_e820_entry wanted[] = {
        {FIRST_ADDRESS, 0x1000, E820_RAM},
        {FIRST_ADDRESS + 0x1000, 0x2000, E820_RESERVED},
        {FIRST_ADDRESS + 0x3000, 0xd000, E820_RAM},
        {FIRST_ADDRESS + 0x10000, 0x10000, E820_RESERVED},
        {FIRST_ADDRESS + 0x20000, 0x10000, E820_RAM},
        {FIRST_ADDRESS + 0x30000, 0x30000, E820_RESERVED},
    };
    assert_int_equal(bp->e820_entries, 6);
    assert_memory_equal(bp->e820_table, wanted, sizeof(wanted));
    assert_int_equal(bp->hdr.setup_data, 0);
    assert_int_equal(descriptors[0].type, 0);
    assert_int_equal(descriptors[2].type, CONVENTIONAL);
    assert_int_equal(descriptors[4].type, 0);
}

TEST(test_many_entries)
{
    struct guest_entry entry;
    prepare(DESCRIPTORS_MAX);
    const struct boot_params *bp = load(&entry);
    const struct setup_data *extra = (const struct setup_data *)(uintptr_t)bp->hdr.setup_data;

    assert_int_equal(bp->e820_entries, E820_MAX_ENTRIES_ZEROPAGE);
    assert_non_null(extra);
    assert_int_equal(extra->next, 0);
    assert_int_equal(extra->type, SETUP_E820_EXT);
    uint64_t count = extra->len / sizeof(struct boot_e820_entry);
    assert_int_equal(extra->len % sizeof(struct boot_e820_entry), 0);
    const struct boot_e820_entry *table = (const struct boot_e820_entry *)extra->data;

    /* The two parts continue each other, and reach the map's end. */
    const struct boot_e820_entry *last = &bp->e820_table[E820_MAX_ENTRIES_ZEROPAGE - 1];
    assert_int_equal(table[0].addr, last->addr + last->size);
    for (uint64_t i = 1; i < count; i++)
        assert_int_equal(table[i].addr, table[i - 1].addr + table[i - 1].size);
    assert_int_equal(table[count - 1].addr + table[count - 1].size,
                     FIRST_ADDRESS + DESCRIPTORS_MAX * 0x10000ULL);
}

TEST(test_entry_state)
{
    struct guest_entry entry;
    prepare(4);
    load(&entry);

    assert_int_equal(entry.rip, bi.guest_kernel.base + 0x200);
    assert_int_equal(entry.cs, 0x10);
    assert_int_equal(entry.ds, 0x18);
    assert_true(entry.rsp > bi.guest_setup.base &&
                entry.rsp <= bi.guest_setup.base + bi.guest_setup.size);
    assert_int_equal(entry.gdt_limit, 31);
    const uint64_t *gdt = (const uint64_t *)(uintptr_t)entry.gdt_base;
    assert_true(gdt[2] == 0x00af9b000000ffff);
    assert_true(gdt[3] == 0x00cf93000000ffff);

    /* Any address below 4 GiB walks to itself. */
    static const uint64_t addresses[] = {0, 0x1000200, 0x7fffffff, 0xfee00000, 0xffffffff};
    for (size_t i = 0; i < COUNT(addresses); i++) {
        uint64_t a = addresses[i];
        uint64_t pml4e = ((const uint64_t *)(uintptr_t)entry.cr3)[a >> 39];
        uint64_t pdpte = ((const uint64_t *)(uintptr_t)(pml4e & ~0xfffULL))[a >> 30 & 511];
        uint64_t pde = ((const uint64_t *)(uintptr_t)(pdpte & ~0xfffULL))[a >> 21 & 511];
        assert_int_equal(pml4e & 3, 3);
        assert_int_equal(pdpte & 0x83, 3);
        assert_int_equal(pde & 0x83, 0x83);
        assert_int_equal(pde & ~0x1fffffULL, a & ~0x1fffffULL);
    }
}

TEST(test_area_too_small)
{
    struct guest_entry entry;
    struct refusal r = {0};
    prepare(DESCRIPTORS_MAX);
    bi.guest_setup.size = linux_setup_size(0, 10);
    assert_false(linux_load(&bi, &processors, &entry, &r));
    assert_int_equal(r.kind, REFUSE_NO_MEMORY);
}

/* Without ACPI tables nothing can be disabled: no harm with one processor, a refusal with two. */
TEST(test_other_processors)
{
    struct guest_entry entry;
    struct refusal r = {0};
    prepare(4);
    bi.acpi.processors = 1;
    load(&entry);
    bi.acpi.processors = 2;
    assert_false(linux_load(&bi, &processors, &entry, &r));
    assert_int_equal(r.kind, REFUSE_UNSUPPORTED);
    assert_contains(r.line, "found 2 processors");
}
