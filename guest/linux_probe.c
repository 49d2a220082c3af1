/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Checks whether a file is a kernel that can be started. Pure. (Linux,
 * Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header" and "Details of Header Fields".)
 */
#include <asm/bootparam.h>
#include <stddef.h>
#include <string.h>

#include "guest/linux.h"

#define HEADER_OFFSET offsetof(struct boot_params, hdr)
#define HEADER_MAGIC 0x53726448u /* "HdrS" */
#define BOOT_FLAG 0xaa55
#define SECTOR 512u
#define SETUP_SECTORS_DEFAULT 4 /* used if setup_sects is 0 */
#define PROTOCOL_WANTED 0x020c  /* 2.12: the first with xloadflags */
/* length of the header from 0x202 on in protocol 2.12; the field `jump` jumps over these bytes */
#define HEADER_BYTES_WANTED 0x66
#define PARAGRAPH 16u /* bytes; the unit of syssize */
#define INIT_SIZE_MAX (1ULL << 30)
#define INITRD_MAX_LOW 0x37ffffffULL /* used if initrd_addr_max is 0 */

_Static_assert(HEADER_OFFSET == 0x1f1, "boot protocol: the header is at 0x1f1");

static bool check_image_kind(const struct setup_header *h, const char *name, struct refusal *r)
{
    if (h->boot_flag != BOOT_FLAG || h->header != HEADER_MAGIC)
        return refuse(r, REFUSE_BAD_FILE,
                      "kernel %s: found boot flag 0x%x and magic 0x%x, wanted 0x%x and 0x%x of a "
                      "bzImage; give an x86 bzImage (vmlinuz)",
                      name, h->boot_flag, h->header, BOOT_FLAG, HEADER_MAGIC);
    if (h->version < PROTOCOL_WANTED)
        return refuse(r, REFUSE_BAD_FILE,
                      "kernel %s: found boot protocol %u.%02u, wanted 2.12 or later; use Linux "
                      "3.8 or later",
                      name, h->version >> 8, h->version & 0xff);
    if (h->jump >> 8 < HEADER_BYTES_WANTED)
        return refuse(r, REFUSE_BAD_FILE,
                      "kernel %s: found a header of 0x%x bytes behind 0x202, wanted 0x%x of boot "
                      "protocol 2.12; copy the kernel again",
                      name, h->jump >> 8, HEADER_BYTES_WANTED);
    if (!(h->xloadflags & XLF_KERNEL_64))
        return refuse(r, REFUSE_BAD_FILE,
                      "kernel %s: found xloadflags 0x%x without the 64-bit entry (bit 0), wanted "
                      "a 64-bit kernel; use an amd64 kernel",
                      name, h->xloadflags);
    if (!h->relocatable_kernel)
        return refuse(r, REFUSE_BAD_FILE,
                      "kernel %s: found a kernel that is not relocatable, wanted "
                      "relocatable_kernel = 1; build it with CONFIG_RELOCATABLE=y",
                      name);
    return true;
}

/* Checks the fields from which the loader computes sizes and addresses, and whether the file is
 * complete. */
static bool check_header_fields(const struct setup_header *h, const struct linux_image *image,
                                uint64_t size, const char *name, struct refusal *r)
{
    uint64_t payload_end = (uint64_t)h->payload_offset + h->payload_length;
    uint64_t alignment = h->kernel_alignment;
    uint64_t wanted = image->setup_size +
                      (payload_end > image->kernel_size ? payload_end : image->kernel_size);

    if (h->syssize == 0 || size < wanted)
        return refuse(r, REFUSE_BAD_FILE,
                      "kernel %s: found %lu bytes, wanted %lu: the file is truncated; copy the "
                      "kernel again",
                      name, size, wanted);
    if (alignment < PAGE_SIZE || alignment > INIT_SIZE_MAX || (alignment & (alignment - 1)) != 0)
        return refuse(r, REFUSE_BAD_FILE,
                      "kernel %s: found kernel_alignment 0x%lx, wanted a power of two from 4 KiB "
                      "to 1 GiB; copy the kernel again",
                      name, alignment);
    if (image->init_size < image->kernel_size || image->init_size > INIT_SIZE_MAX)
        return refuse(r, REFUSE_BAD_FILE,
                      "kernel %s: found init_size 0x%lx for 0x%lx bytes of kernel, wanted at "
                      "least that and at most 1 GiB; copy the kernel again",
                      name, image->init_size, image->kernel_size);
    return true;
}

bool linux_probe(const void *file, uint64_t size, const char *name, struct linux_image *image,
                 struct refusal *r)
{
    struct setup_header h;

    if (size < HEADER_OFFSET + sizeof(h))
        return refuse(
            r, REFUSE_BAD_FILE,
            "kernel %s: found %lu bytes, wanted a bzImage, which has a setup header and at "
            "least %lu bytes; copy the kernel again",
            name, size, HEADER_OFFSET + sizeof(h));
    memcpy(&h, (const uint8_t *)file + HEADER_OFFSET, sizeof(h));
    if (!check_image_kind(&h, name, r))
        return false;

    uint64_t sectors = h.setup_sects != 0 ? h.setup_sects : SETUP_SECTORS_DEFAULT;
    uint64_t setup_size = (sectors + 1) * SECTOR;
    *image = (struct linux_image){
        .setup_size = setup_size,
        .kernel_size = (uint64_t)h.syssize * PARAGRAPH,
        .init_size = h.init_size,
        .alignment = h.kernel_alignment,
        .preferred = h.pref_address,
        .initrd_max = h.initrd_addr_max != 0 ? h.initrd_addr_max : INITRD_MAX_LOW,
        .command_line_max = h.cmdline_size,
        .protocol = h.version,
    };
    if (h.xloadflags & XLF_CAN_BE_LOADED_ABOVE_4G)
        image->initrd_max = UINT64_MAX;
    return check_header_fields(&h, image, size, name, r);
}
