/* SPDX-License-Identifier: BSD-2-Clause
 *
 * print_file.h: how a program in the guest leaves a file where there is nothing but a console, as
 * in QEMU: as lines of text, which
 * experiments/shared/analysis/console_files.py reads. The emulator has a channel (hand_over.h).
 */
#pragma once

#include <stdbool.h>

/* A whole file on stdout, under `name`: base64 (RFC 4648) between a first and a last line. False,
 * and a line: it cannot be read. */
bool print_file(const char *name, const char *path);
