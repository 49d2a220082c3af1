/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The parts of the loaded image, from linker.ld. They are page-aligned, and each has one kind of
 * access in the host page tables. Use only the addresses: `(uint64_t)image_text_start`.
 */
#pragma once

extern char image_text_start[], image_text_end[];     /* read, execute */
extern char image_rodata_start[], image_rodata_end[]; /* read */
extern char image_data_start[], image_data_end[];     /* read, write */
extern char image_bss_start[], image_bss_end[];       /* the last part of image_data */
