/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The loaded image's parts, from linker.ld: page-aligned, one kind of access each, for the
 * host page tables.
 * Use them by address only: `(uint64_t)image_text_start`.
 */
#pragma once

extern char image_text_start[], image_text_end[];     /* read, execute */
extern char image_rodata_start[], image_rodata_end[]; /* read */
extern char image_data_start[], image_data_end[];     /* read, write */
extern char image_bss_start[], image_bss_end[];       /* the end of image_data */
