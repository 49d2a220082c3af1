/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hand_over.h: how a program in the guest leaves a file of its own with the emulator
 * (programs/guest_file.h). Nothing happens elsewhere.
 */
#pragma once

#include <stdbool.h>

/* A whole file, under `name`. False, and a line: it cannot be read. */
bool hand_over_file(const char *name, const char *path);
