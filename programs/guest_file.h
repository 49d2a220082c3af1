/* SPDX-License-Identifier: BSD-2-Clause
 *
 * guest_file.h: how a program of the guest hands a file over to the emulator (testbed/README.md,
 * "Files of the guest"). 64-bit code at any privilege, natively and in a guest. Elsewhere, and
 * without the emulator's knob, nothing happens.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GUEST_FILE_MARKER 7u
#define GUEST_FILE_PIECE (1u << 18) /* the emulator takes four times as much at once */

/* Appends the bytes to the file of that name: A-Z, a-z, 0-9, '.', '_' and '-', at most 32. */
static inline void guest_file(const char *name, const void *data, size_t bytes)
{
    const char *at = (const char *)data;

    do {
        uint32_t piece = bytes < GUEST_FILE_PIECE ? (uint32_t)bytes : GUEST_FILE_PIECE;

        __asm__ volatile("xchg %%bx, %%bx"
                         :
                         : "a"(piece), "c"(GUEST_FILE_MARKER), "d"(at), "S"(name)
                         : "memory");
        at += piece;
        bytes -= piece;
    } while (bytes > 0);
}
