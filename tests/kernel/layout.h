/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Where the test kernel's parts lie, in its file and in memory; plain numbers, because the linker
 * script reads this too. (Linux, Documentation/arch/x86/boot.rst, "Memory Layout".)
 */
#pragma once

/* ---- the file: setup part, then the kernel, which the loader puts where it likes ---- */
#define SECTOR 512
#define SETUP_SECTORS 3 /* beside the first */
#define SETUP_SIZE ((SETUP_SECTORS + 1) * SECTOR)
#define HEADER_OFFSET 0x1f1 /* of struct setup_header in the file */
#define HEADER_SIZE 0x7b    /* of all its fields up to protocol 2.15 */
#define SETUP_CODE (HEADER_OFFSET + HEADER_SIZE)
#define PARAGRAPH 16 /* unit of the kernel's size in the header */

/* ---- memory ---- */
#define ENTRY_64 0x200     /* of the 64-bit entry in the kernel */
#define INIT_SIZE 0x1c0000 /* kernel, its zeroed data, stacks and page tables */
#define AP_STACK 0x2000    /* of another processor, and each of its two for events */
#define AP_STACKS 0x6000   /* all three */
#define ALIGNMENT 0x1000   /* of the load address */
#define PREFERRED 0x1000000
/* The kernel runs here wherever it was loaded, so that pointers in its data need no relocation. */
#define KERNEL_VIRTUAL 0xffffffff80000000
#define KERNEL_PROCESSORS 16 /* more than these are left asleep */
