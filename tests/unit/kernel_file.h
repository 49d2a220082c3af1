/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The setup header of a kernel file in order. (Linux, Documentation/arch/x86/boot.rst.)
 */
#pragma once

#include <asm/bootparam.h>

#define HEADER_OFFSET 0x1f1

static inline struct setup_header kernel_header(uint8_t setup_sectors, uint32_t kernel_size)
{
    return (struct setup_header){
        .setup_sects = setup_sectors,
        .syssize = kernel_size / 16,
        .boot_flag = 0xaa55,
        .jump = 0x6aeb, /* the header reaches to 0x202 + 0x6a */
        .header = 0x53726448,
        .version = 0x020f,
        .loadflags = LOADED_HIGH,
        .initrd_addr_max = 0x7fffffff,
        .kernel_alignment = 0x200000,
        .relocatable_kernel = 1,
        .xloadflags = XLF_KERNEL_64,
        .cmdline_size = 2047,
        .pref_address = 0x1000000,
        .init_size = 0x300000,
    };
}
