/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hand_over.h: how a program in the guest leaves a file with the emulator (testbed/README.md,
 * "Branch trace"): sections of a name, a length and as many bytes. Nothing happens elsewhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

void hand_over_section(const char *name, const void *data, size_t bytes);
/* A whole file. False, and a line: it cannot be read. */
bool hand_over_file(const char *name, const char *path);
