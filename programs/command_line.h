/* SPDX-License-Identifier: BSD-2-Clause
 *
 * command_line.h: what the kernel's command line says to a program of the guest.
 */
#pragma once

#include <stddef.h>

/* Puts the value of `key` in the environment, else of the last word KEY=VALUE of the kernel's command
 * line, else `fallback`, in `value`, cut off after size - 1 characters. Words in quotes are not
 * understood. Linux, Documentation/admin-guide/kernel-parameters.rst. */
void command_line_word(const char *key, const char *fallback, char *value, size_t size);
