/* SPDX-License-Identifier: BSD-2-Clause
 *
 * command_line.h: what the kernel's command line says to a program of the guest.
 */
#pragma once

#include <stddef.h>

/* In the environment: words that count as if they stood at the end of the kernel's command line. */
#define COMMAND_LINE_WORDS "PMV_WORDS"

/* Puts the value of `key` in the environment, else of the last word KEY=VALUE of the kernel's
 * command line and the words after it, else `fallback`, in `value`, cut off after size - 1
 * characters. Words in quotes are not understood. Linux,
 * Documentation/admin-guide/kernel-parameters.rst. */
/* The line, with those words: one line without its end, empty where it cannot be read; cut off
 * likewise. */
void command_line_text(char *text, size_t size);
void command_line_word(const char *key, const char *fallback, char *value, size_t size);
