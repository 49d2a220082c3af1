/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Unit tests of the bzImage checks, on files made here: each fault alone is refused, and the rest
 * is not.
 */
#define SETUP setup
#define TEARDOWN teardown
#include "unit.h"

#include "guest/linux.h"
#include "kernel_file.h"
#include "lib/refusal.h"

#define SETUP_SECTORS 3
#define SETUP_SIZE ((SETUP_SECTORS + 1) * 512)
#define KERNEL_SIZE 8192
#define FILE_SIZE (SETUP_SIZE + KERNEL_SIZE)

static uint8_t *file;
static struct setup_header h;

/* A kernel in order; tests change `h` and call probe(). */
static int setup(void **state)
{
    (void)state;
    file = calloc(1, FILE_SIZE);
    h = kernel_header(SETUP_SECTORS, KERNEL_SIZE);
    h.xloadflags |= XLF_CAN_BE_LOADED_ABOVE_4G;
    h.payload_offset = 100;
    h.payload_length = 8000;
    return file == NULL;
}

static int teardown(void **state)
{
    (void)state;
    free(file);
    return 0;
}

static bool probe(uint64_t size, struct linux_image *image, struct refusal *r)
{
    uint8_t *exact = malloc(size + (size == 0)); /* so that ASan sees a read past the end */
    memcpy(file + HEADER_OFFSET, &h, sizeof(h));
    memcpy(exact, file, size);
    bool ok = linux_probe(exact, size, "k", image, r);
    free(exact);
    return ok;
}

static void reject_size(uint64_t size, const char *wanted)
{
    struct linux_image image;
    struct refusal r = {0};
    assert_false(probe(size, &image, &r));
    assert_int_equal(r.kind, REFUSE_BAD_FILE);
    assert_ptr_equal(strstr(r.line, "kernel k: "), r.line);
    assert_null(strchr(r.line, '\n'));
    assert_contains(r.line, wanted);
}

static void reject(const char *wanted) { reject_size(FILE_SIZE, wanted); }

static void accept(struct linux_image *image)
{
    struct refusal r = {0};
    if (!probe(FILE_SIZE, image, &r))
        fail_msg("refused: %s", r.line);
}

TEST(test_good)
{
    struct linux_image image;
    accept(&image);
    assert_int_equal(image.setup_size, SETUP_SIZE);
    assert_int_equal(image.kernel_size, KERNEL_SIZE);
    assert_int_equal(image.init_size, 0x300000);
    assert_int_equal(image.alignment, 0x200000);
    assert_int_equal(image.preferred, 0x1000000);
    assert_int_equal(image.command_line_max, 2047);
    assert_int_equal(image.protocol, 0x020f);
    assert_true(image.initrd_max == UINT64_MAX);
}

TEST(test_initrd_below_its_limit)
{
    struct linux_image image;
    h.xloadflags = XLF_KERNEL_64;
    accept(&image);
    assert_int_equal(image.initrd_max, 0x7fffffff);
    h.initrd_addr_max = 0;
    accept(&image);
    assert_int_equal(image.initrd_max, 0x37ffffff);
}

TEST(test_default_setup_sectors)
{
    struct linux_image image;
    h.setup_sects = 0; /* means 4 */
    h.syssize = (FILE_SIZE - 5 * 512) / 16;
    h.payload_length = 100;
    accept(&image);
    assert_int_equal(image.setup_size, 5 * 512);
}

TEST(test_sizes)
{
    reject_size(0, "found 0 bytes, wanted a bzImage");
    reject_size(1, "setup header");
    reject_size(0x1f1, "setup header");
    reject_size(0x1f1 + sizeof(struct setup_header) - 1, "setup header");
    reject_size(SETUP_SIZE, "truncated");
    reject_size(FILE_SIZE / 2, "truncated");
    reject_size(FILE_SIZE - 1, "truncated");
}

TEST(test_kind)
{
    h.header = 0x464c457f;
    reject("bzImage");
    h.header = 0x53726448;
    h.boot_flag = 0;
    reject("bzImage");
}

TEST(test_protocol)
{
    struct linux_image image;
    h.version = 0x020b;
    reject("found boot protocol 2.11, wanted 2.12");
    h.version = 0x020c;
    accept(&image);
}

TEST(test_short_header)
{
    struct linux_image image;
    h.jump = 0x65eb;
    reject("found a header of 0x65 bytes behind 0x202, wanted 0x66");
    h.jump = 0x66eb;
    accept(&image);
}

TEST(test_not_64_bit)
{
    h.xloadflags = XLF_CAN_BE_LOADED_ABOVE_4G;
    reject("64-bit");
}

TEST(test_not_relocatable)
{
    h.relocatable_kernel = 0;
    reject("not relocatable");
}

TEST(test_bad_numbers)
{
    static const uint32_t alignments[] = {0, 1, 0x800, 0x3000, 0x80000000};
    for (size_t i = 0; i < COUNT(alignments); i++) {
        h.kernel_alignment = alignments[i];
        reject("kernel_alignment");
    }
    h.kernel_alignment = 0x1000;
    h.init_size = KERNEL_SIZE - 1;
    reject("init_size");
    h.init_size = 0xffffffff;
    reject("init_size");
    h.init_size = 0x300000;
    h.syssize = 0;
    h.payload_length = h.payload_offset = 0;
    reject("truncated");
    h.syssize = 0xffffffff;
    reject("truncated");
    h.syssize = KERNEL_SIZE / 16;
    h.payload_offset = h.payload_length = 0xffffffff;
    reject("truncated");
}
