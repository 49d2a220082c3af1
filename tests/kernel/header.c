/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The setup header by which boot loaders know the test kernel as a Linux kernel.
 * (Linux, Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header".)
 */
#include <asm/bootparam.h>
#include <stddef.h>

#include "layout.h"

#define PROTOCOL 0x020f
#define MAGIC 0x53726448 /* "HdrS" */
#define BOOT_FLAG 0xaa55
#define PARAGRAPH 16
#define LOADED_AT 0x100000
#define COMMAND_LINE_MAX 2047
#define INITRD_MAX 0x7fffffff
#define SHORT_JUMP 0xeb
#define AFTER_JUMP 0x202
#define HEAP_END (0x10000 - SECTOR)

_Static_assert(sizeof(struct setup_header) == HEADER_SIZE, "protocol 2.15");
_Static_assert(offsetof(struct boot_params, hdr) == HEADER_OFFSET, "boot protocol");
_Static_assert(HEADER_OFFSET + offsetof(struct setup_header, header) == AFTER_JUMP,
               "boot protocol");

__attribute__((section(".setup_header"), used))
const struct setup_header setup_header = {
    .setup_sects = SETUP_SECTORS,
    .syssize = KERNEL_FILE_SIZE / PARAGRAPH,
    .boot_flag = BOOT_FLAG,
    .jump = SHORT_JUMP | (SETUP_CODE - AFTER_JUMP) << 8,
    .header = MAGIC,
    .version = PROTOCOL,
    .loadflags = LOADED_HIGH,
    .code32_start = LOADED_AT,
    .heap_end_ptr = HEAP_END,
    .initrd_addr_max = INITRD_MAX,
    .kernel_alignment = ALIGNMENT,
    .relocatable_kernel = 1,
    .min_alignment = __builtin_ctz(ALIGNMENT),
    .xloadflags = XLF_KERNEL_64,
    .cmdline_size = COMMAND_LINE_MAX,
    .pref_address = PREFERRED,
    .init_size = INIT_SIZE,
};
